"""How a predicate is answered in one segment, and why no other index answers it."""

from __future__ import annotations

from typing import Final

from pinotpy.arrays import Int64Array
from pinotpy.kernels.filter import predicates
from pinotpy.kernels.filter.predicate_frame import PREDICATE_ALWAYS, PREDICATE_NEVER
from pinotpy.kernels.filter.predicate_table import BY_BITS, BY_LIST, BY_RUN
from pinotpy.kernels.runtime import abi
from pinotpy.pql.ast import Dialect
from pinotpy.query.explain.predicate_text import predicate_text
from pinotpy.query.filter import index_choice, index_docs
from pinotpy.query.filter.bound_predicate import BoundPredicate
from pinotpy.query.filter.compiled import CompiledPredicate
from pinotpy.query.filter.index_choice import Choices
from pinotpy.query.filter.interpreted import InterpretedPredicate, condition_columns
from pinotpy.query.filter.planner import FilterPlan
from pinotpy.query.filter.pruning import BY_BLOOM, BY_PARTITION
from pinotpy.query.filter.search.json_coverage import left_out
from pinotpy.query.filter.search.json_query import parse_json_query
from pinotpy.query.filter.tree import Resolved, ResolvedAll, ResolvedAny, predicates_of
from pinotpy.query.model.predicate import JsonSearch, Nothing, NullTest, TextSearch
from pinotpy.query.result.explained_groups import DICTIONARY, INVERTED, JSON, RANGE, SORTED, TEXT, Finding
from pinotpy.query.segments.column_metas import ColumnMetas
from pinotpy.query.segments.on_dictionary import deciding_column
from pinotpy.segment.data_source import JsonIndex

_NAMES: Final = {index_docs.INVERTED: INVERTED, index_docs.RANGE: RANGE}

_PRICES: Final = "estimated {indexMicros} us by index, {scanMicros} us by scan"
_OF_FUNCTION: Final = (
    (predicates.docs_range, (SORTED, "docs are compared with a run of docs")),
    (predicates.ids_range, ("scan", "dictionary ids are compared with a range of ids")),
    (predicates.ids_runs, ("scan", "dictionary ids are compared with a few runs of ids")),
    (predicates.ids_bits, ("scan", "dictionary ids are looked up in a bitmap of ids that pass")),
    (predicates.ids_lut, ("scan", "dictionary ids are looked up in a table of ids that pass")),
    (predicates.ids_set, ("scan", "dictionary ids are looked up in a set of ids that pass")),
    (predicates.raw_range, ("scan", "raw values are compared")),
    (predicates.raw_set, ("scan", "raw values are looked up in a set")),
    (predicates.is_null, ("null vector", "bits are read")),
)


def _of_function(address: int) -> tuple[str, str]:
    """How the block function at this address gets at a column. One that is not loaded is in no plan."""
    known = (found for function, found in _OF_FUNCTION if function.is_loaded and function.address == address)
    return next(known, ("scan", "raw texts are compared"))


class FilterExplainer:
    """Explains a filter segment by segment, from the plan that a query would run."""

    def __init__(self, plan: FilterPlan, choices: Choices, dialect: Dialect) -> None:
        self._plan, self._choices, self._dialect = plan, choices, dialect
        self._metas: ColumnMetas = plan.metas
        self._late = {id(node) for node in plan.late}
        self._is_read = plan.docs_to_read() > 0
        self._untested = {
            id(bound)
            for node, slot in zip(plan.conjuncts, plan.slots.tolist(), strict=True)
            if slot < 0
            for bound in predicates_of(node)
        }

    def in_segment(self, segment: int) -> Finding:
        """The filter in one segment (its number among those of the plan)."""
        return self._node(self._plan.tree, segment)

    def who_prunes(self, segment: int) -> list[Finding]:
        """The predicates that exclude a segment, each with the rule by which it does (pruning.BY_*)."""
        return next((pruners for node in self._plan.conjuncts if (pruners := self._pruners(node, segment))), [])

    def _node(self, node: Resolved, segment: int) -> Finding:
        if isinstance(node, ResolvedAll | ResolvedAny):
            children = [self._node(child, segment) for child in node.children]
            return {"operator": "AND" if isinstance(node, ResolvedAll) else "OR", "children": children}
        shown = predicate_text(node, self._dialect)
        finding: Finding = {"operator": shown.operator, "predicate": shown.text}
        if isinstance(node, InterpretedPredicate):
            return finding | (self._not_tested(node, segment) or self._expression(node, segment))
        return finding | self._predicate_of(node, segment)

    def _not_tested(self, bound: BoundPredicate | InterpretedPredicate, segment: int) -> Finding | None:
        """Of a predicate that the program leaves out; None where it is tested."""
        if not self._is_read[segment]:
            return {"access": "nothing", "why": "not tested: no doc of the segment is left to read"}
        if id(bound) in self._untested:
            why = "not tested: another condition of the OR holds for every doc that is read"
            return {"access": "everything", "why": why}
        return None

    def _expression(self, node: InterpretedPredicate, segment: int) -> Finding:
        if isinstance(node, CompiledPredicate):
            why = "computed block by block on the docs that the conditions before it leave"
        else:
            column = deciding_column(
                condition_columns(node.condition.condition), self._metas.segments[segment], strict=False
            )
            docs = (
                "the docs that the other conditions leave"
                if id(node) in self._late
                else "all docs, because it stands under OR"
            )
            why = f"computed on {docs}" + (
                "" if column is None else f", or on the dictionary of {column.name} if that is less"
            )
        unused = _unused("any index", "an index is over the values of a column, not of an expression")
        return {"access": "expression", "why": why, "notUsed": [unused]}

    # --- one predicate
    # -----------------------------------------------------------------------------------------------------

    def _predicate_of(self, bound: BoundPredicate, segment: int) -> Finding:
        mode, by = bound.mode[segment], bound.answer[segment]
        words = self._metas.planned(bound.typed.column).metas[segment]
        if mode == PREDICATE_NEVER:
            return {"access": "nothing", "why": self._why_never(bound, segment, words)}
        if mode == PREDICATE_ALWAYS:
            if bound.nulls and words[abi.M_NULLS]:
                return {"access": "null vector", "why": "true of every value: only nulls are left out"}
            return {"access": "everything", "why": self._why_always(bound, words)}
        docs = int(bound.docs[segment, 1] - bound.docs[segment, 0])
        if by == BY_RUN:
            return {
                "access": SORTED,
                "why": "the docs are one run",
                "docs": [docs, docs],
                "notUsed": self._unused(bound, segment, SORTED),
            }
        if by == BY_LIST:
            return self._by_index(bound, segment, "only the docs of its list are read")
        not_tested = self._not_tested(bound, segment)
        if not_tested is not None:
            return not_tested
        if by == BY_BITS:
            return self._by_index(bound, segment, "its lists are set as bits, and each doc is tested by its bit")
        if isinstance(bound.typed.test, TextSearch):
            why = "its terms and positions give the docs that match, as flags"
            return {
                "access": TEXT,
                "why": why,
                "notUsed": [_unused("any other index", "only a text index knows words")],
            }
        if isinstance(bound.typed.test, JsonSearch):
            return self._json_access(
                bound.typed.test, self._metas.segments[segment].column(bound.typed.column).json_index
            )
        access, why = _of_function(int(bound.function[segment]))
        if bound.computed[segment]:
            why = "the pattern is matched against every raw text that is left, then read as flags"
        finding: Finding = {"access": access, "why": why, "notUsed": self._unused(bound, segment, access)}
        return finding | {"docs": [docs, docs]} if access == SORTED else finding

    def _json_access(self, test: JsonSearch, index: JsonIndex | None) -> Finding:
        lacks = None if index is None else left_out(index.indexing, parse_json_query(test.text))
        if index is not None and lacks is None:
            why = "its terms give the records that match, and the documents that they belong to"
            return {
                "access": JSON,
                "why": why,
                "notUsed": [_unused("any other index", "only a JSON index knows paths")],
            }
        unused = _unused(JSON, lacks or "not built: name the column in jsonIndexColumns and reload the table")
        return {"access": "scan", "why": "every document is read and flattened", "notUsed": [unused]}

    def _why_never(self, bound: BoundPredicate, segment: int, words: Int64Array) -> str:
        if bound.rule[segment] == BY_BLOOM:
            return "the bloom filter holds none of the values"
        if bound.rule[segment] == BY_PARTITION:
            return "the values belong to partitions that the segment does not hold"
        if isinstance(bound.typed.test, NullTest):
            return "every doc is null" if bound.typed.negated else "the segment has no nulls in this column"
        if bound.typed.negated:
            return "every value passes the condition that is negated"
        if isinstance(bound.typed.test, Nothing):
            return "no value of the column's type can be it"
        return (
            "no value of the dictionary passes"
            if words[abi.M_CARDINALITY] >= 0
            else "min and max of the raw values exclude it"
        )

    def _why_always(self, bound: BoundPredicate, words: Int64Array) -> str:
        if isinstance(bound.typed.test, NullTest):
            return "the segment has no nulls in this column" if bound.typed.negated else "every doc is null"
        if bound.typed.negated:
            return "no value passes the condition that is negated"
        return (
            "every value of the dictionary passes"
            if words[abi.M_CARDINALITY] >= 0
            else "min and max of the raw values lie inside"
        )

    # --- the roads not taken ------------------------------------------------------------------------------------------

    def _unused(self, bound: BoundPredicate, segment: int, access: str) -> list[Finding]:
        words = self._metas.planned(bound.typed.column).metas[segment]
        if isinstance(bound.typed.test, NullTest):
            return [_unused("any index", "nulls are no values: only the null vector knows them")]
        if words[abi.M_CARDINALITY] < 0:
            why = "the column is raw: it has no dictionary"
            anew = (
                f"{why}, and a reload gives it none: take the column out of noDictionaryColumns and build the "
                "segment anew"
            )
            unused = [_unused(DICTIONARY, why), _unused(SORTED, why), _unused(INVERTED, anew)]
            return unused if access == RANGE else [*unused, self._why_not_indexed(bound, segment, words, access, RANGE)]
        unused = []
        if access != SORTED:
            unused.append(_unused(SORTED, self._why_not_sorted(bound, segment, words)))
        return unused + [
            self._why_not_indexed(bound, segment, words, access, index)
            for index in (INVERTED, RANGE)
            if index != access
        ]

    def _why_not_sorted(self, bound: BoundPredicate, segment: int, words: Int64Array) -> str:
        if words[abi.M_MV_OFFSETS]:
            return "the column is multi-valued"
        if not words[abi.M_SORTED_STARTS]:
            return "the column is not sorted"
        if not bound.sorted[segment]:
            return "the values that pass do not lie side by side"
        return "a shorter list of docs was found"

    def _why_not_indexed(
        self, bound: BoundPredicate, segment: int, words: Int64Array, access: str, index: str
    ) -> Finding:
        if not words[abi.M_INVERTED_OFFSETS if index == INVERTED else abi.M_RANGE_BOUNDS]:
            return _unused(index, "not built")
        if not self._is_read[segment]:
            return _unused(index, "no doc of the segment is left to read")
        if access == SORTED and bound.answer[segment] == BY_RUN:
            return _unused(index, "the sorted index gives one run of docs")
        indexed = self._choices.bound_predicates.get(id(bound))
        if indexed is None or indexed.index[segment] == index_docs.NO_INDEX:
            return _unused(
                index,
                "no value passes"
                if bound.ranged[segment] or len(bound.members)
                else "it does not answer this kind of condition",
            )
        if _NAMES[int(indexed.index[segment])] != index:
            return _unused(index, f"the {_NAMES[int(indexed.index[segment])]} knows more")
        others = [
            node
            for node in self._plan.conjuncts
            if node is not bound and isinstance(node, BoundPredicate) and node.answer[segment] == BY_LIST
        ]
        if others:
            return _unused(index, f"the list of {predicate_text(others[0], self._dialect).text} is shorter")
        estimates, why = self._estimates(bound, segment), f"{{percent}} % of the docs: {_PRICES}"
        if estimates["indexMicros"] < estimates["scanMicros"]:
            why += f"; joining its lists has to save {index_choice.OVERHEAD_US} us in all segments together"
        return _unused(index, why) | estimates

    def _by_index(self, bound: BoundPredicate, segment: int, why: str) -> Finding:
        """A predicate that an index answers: how many docs its lists hold, and what the alternatives were estimated to
        cost.
        """
        indexed = self._choices.bound_predicates.get(id(bound))
        name = INVERTED if indexed is None else _NAMES.get(int(indexed.index[segment]), INVERTED)
        if indexed is None or indexed.index[segment] == index_docs.NO_INDEX:
            # Another condition of the same OR has the docs.
            return {"access": "nothing", "why": "no value passes"}
        if indexed.bitmaps[segment]:
            why = f"{why}; the index has Roaring bitmaps"
        count = int(indexed.entries[segment])
        finding = {
            "access": name,
            "why": f"{why}; {_PRICES}",
            "docs": [count, count],
            "notUsed": self._unused(bound, segment, name),
        }
        return finding | {k: v for k, v in self._estimates(bound, segment).items() if k != "percent"}

    def _estimates(self, bound: BoundPredicate, segment: int) -> Finding:
        indexed = self._choices.bound_predicates[id(bound)]
        docs = max(int(self._metas.planned(bound.typed.column).metas[segment, abi.M_NUM_DOCS]), 1)
        index_us, scan_us = (
            round(float(prices[id(bound)][segment]) / 1000, 2)
            for prices in (self._choices.index_ns, self._choices.scan_ns)
        )
        percent = round(100 * int(indexed.entries[segment]) / docs, 2)
        return {"percent": [percent, percent], "indexMicros": [index_us, index_us], "scanMicros": [scan_us, scan_us]}

    # --- pruning ------------------------------------------------------------------------------------------------------

    def _pruners(self, node: Resolved, segment: int) -> list[Finding]:
        if isinstance(node, InterpretedPredicate):
            return []
        if isinstance(node, BoundPredicate):
            if not node.prune[segment]:
                return []
            column = self._metas.segments[segment].column(node.typed.column)
            return [
                {
                    "predicate": predicate_text(node, self._dialect).text,
                    "column": column.name,
                    "rule": int(node.rule[segment]),
                }
            ]
        pruners = [self._pruners(child, segment) for child in node.children]
        if isinstance(node, ResolvedAny):
            return [pruner for each in pruners for pruner in each] if all(pruners) else []
        return next((each for each in pruners if each), [])


def _unused(index: str, why: str) -> Finding:
    return {"index": index, "why": why}
