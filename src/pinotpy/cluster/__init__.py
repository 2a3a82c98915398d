"""The cluster's shared state, in Helix's shape over ZooKeeper. Floor 3; knows config and nothing else of pinotpy.

    ideal state ─(lead controller: pipeline → transitions, pure)→ messages ─(participant)→ current states
        → external view → spectator

Reading order: `store` (the door; `zookeeper`, `memory`), `records` and `views` (what lies in it), `paths`, `buckets`;
`table_changes` and `table_state.apply` (the only way to change a table), `property_store`; `state_model`, `transitions`
(the decision), `pipeline` and `leader` (controller), `participant` and `membership` (server, broker), `spectator`
(readers).
"""
