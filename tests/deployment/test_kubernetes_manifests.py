"""Proves that the manifests of deploy/kubernetes are valid for Kubernetes (its own schemas, strictly), that pods are
hardened, probed and bounded, that names and ports agree with each other and with the daemons' defaults, and that no
secret stands in them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from daemon_defaults import QUERY_PORT, REST_PORTS, accepts, environment_variables, longest_stop_s

FOLDER = Path(__file__).resolve().parent.parent.parent / "deploy" / "kubernetes" / "base"
KUSTOMIZATION: dict[str, Any] = yaml.safe_load((FOLDER / "kustomization.yaml").read_text(encoding="utf-8"))
DOCUMENTS: list[dict[str, Any]] = [
    document
    for file in KUSTOMIZATION["resources"]
    for document in yaml.safe_load_all((FOLDER / file).read_text(encoding="utf-8"))
]
VERSIONS = ("1.30.0", kubernetes_validate.latest_version())
ROLES = ("controller", "broker", "server")
SETS = {document["metadata"]["name"]: document["spec"] for document in DOCUMENTS if document["kind"] == "StatefulSet"}


def of_kind(kind: str) -> dict[str, dict[str, Any]]:
    return {document["metadata"]["name"]: document["spec"] for document in DOCUMENTS if document["kind"] == kind}


def settings_of_all() -> dict[str, str]:
    return next(
        d["data"] for d in DOCUMENTS if d["kind"] == "ConfigMap" and d["metadata"]["name"] == "pinotpy-settings"
    )


def container(name: str) -> dict[str, Any]:
    (only,) = SETS[name]["template"]["spec"]["containers"]
    return dict(only)


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield str(key)
            yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)
    else:
        yield str(value)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "document", DOCUMENTS, ids=lambda document: f"{document['kind']}-{document['metadata']['name']}"
)
def test_a_document_is_valid_for_kubernetes(document: dict[str, Any], version: str) -> None:
    kubernetes_validate.validate(document, version, strict=True)


def test_the_validator_refuses_what_is_wrong() -> None:
    wrong = {**next(d for d in DOCUMENTS if d["kind"] == "StatefulSet")}
    wrong["spec"] = {**wrong["spec"], "replicaz": 3}
    with pytest.raises(kubernetes_validate.ValidationError, match="replicaz"):
        kubernetes_validate.validate(wrong, VERSIONS[0], strict=True)


def test_every_file_is_a_resource_and_all_daemons_are_there() -> None:
    assert {file.name for file in FOLDER.iterdir()} == {"kustomization.yaml", *KUSTOMIZATION["resources"]}
    assert set(SETS) == {"zookeeper", *ROLES}
    assert len({(d["kind"], d["metadata"]["name"]) for d in DOCUMENTS}) == len(DOCUMENTS)


@pytest.mark.parametrize("name", sorted(SETS))
def test_a_pod_cannot_become_root_and_is_bounded(name: str) -> None:
    pod, inside = SETS[name]["template"]["spec"], container(name)
    context = pod["securityContext"]
    assert (
        context["runAsNonRoot"] is True and context["runAsUser"] >= 1000 and context["fsGroup"] == context["runAsUser"]
    )
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert inside["securityContext"]["allowPrivilegeEscalation"] is False and inside["securityContext"][
        "capabilities"
    ] == {"drop": ["ALL"]}
    if name in ROLES:
        assert inside["securityContext"]["readOnlyRootFilesystem"] is True
        assert context["runAsUser"] == 10001, "the user of the Dockerfile"
    assert pod["automountServiceAccountToken"] is False
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod) and not any(
        "hostPath" in volume for volume in pod.get("volumes", [])
    )
    assert {"cpu", "memory"} <= set(inside["resources"]["requests"]) and inside["resources"]["limits"]["memory"]


@pytest.mark.parametrize("name", sorted(SETS))
def test_a_pod_is_probed_and_keeps_its_data(name: str) -> None:
    inside = container(name)
    ports = {port["name"]: port["containerPort"] for port in inside["ports"]}
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert probe in inside
        if name in ROLES:
            path = "/health/readiness" if probe == "readinessProbe" else "/health/liveness"
            assert inside[probe]["httpGet"] == {"path": path, "port": "http"}
    (claim,) = SETS[name]["volumeClaimTemplates"]
    assert re.fullmatch(r"\d+Gi", claim["spec"]["resources"]["requests"]["storage"])
    volumes = {
        claim["metadata"]["name"],
        *(volume["name"] for volume in SETS[name]["template"]["spec"].get("volumes", [])),
    }
    mounts = {mount["mountPath"]: mount for mount in inside["volumeMounts"]}
    assert {mount["name"] for mount in mounts.values()} == volumes
    assert mounts["/data" if name == "zookeeper" else "/var/lib/pinotpy"]["name"] == "data"
    assert SETS[name]["template"]["spec"]["terminationGracePeriodSeconds"] >= (
        longest_stop_s(name) if name in ROLES else 20
    )
    assert ports["client" if name == "zookeeper" else "http"] == (2181 if name == "zookeeper" else REST_PORTS[name])


@pytest.mark.parametrize("role", ROLES)
def test_a_daemon_takes_its_settings_and_access_control_is_on(role: str) -> None:
    inside = container(role)
    assert inside["args"] == [f"start-{role}"]
    assert inside["envFrom"] == [{"configMapRef": {"name": "pinotpy-settings"}}]
    data = settings_of_all()
    own = {entry["name"]: entry["value"] for entry in inside["env"] if "value" in entry}
    known = set().union(*(environment_variables(each) for each in ROLES))
    assert set(data) | set(own) <= known
    settings = accepts(role, {**data, **own})
    assert settings.unrecognized == () and not settings.insecure
    assert settings.advertised_host == f"$(POD_NAME).{SETS[role]['serviceName']}"
    assert {"POD_NAME"} == {entry["name"] for entry in inside["env"] if "valueFrom" in entry}
    (access,) = [volume for volume in SETS[role]["template"]["spec"]["volumes"] if "secret" in volume]
    assert access["secret"] == {"secretName": "pinotpy-access", "defaultMode": 0o440}
    (mount,) = [mount for mount in inside["volumeMounts"] if mount["name"] == access["name"]]
    assert mount["readOnly"] is True
    assert settings.auth_users_file == Path(mount["mountPath"]) / "users.json"
    assert settings.cluster_token_file == Path(mount["mountPath"]) / "cluster.token"


def test_the_query_ports_are_the_daemons_own() -> None:
    ports = {port["name"]: port["containerPort"] for port in container("server")["ports"]}
    own = {entry["name"]: entry.get("value") for entry in container("server")["env"]}
    assert ports["query"] == QUERY_PORT and str(ports["frames"]) == own["PINOTPY_SERVER_FRAME_PORT"]
    assert len(set(ports.values())) == len(ports)


def test_services_lead_to_pods_and_to_ports_that_they_have() -> None:
    services = of_kind("Service")
    assert {"pinotpy-controller", "pinotpy-broker"} <= set(services)
    for name, service in services.items():
        target = service["selector"]["app.kubernetes.io/name"]
        assert (
            SETS[target]["template"]["metadata"]["labels"]
            == service["selector"]
            == SETS[target]["selector"]["matchLabels"]
        )
        ports = {port["name"]: port["containerPort"] for port in container(target)["ports"]}
        for port in service["ports"]:
            assert port["port"] == ports[port["name"]] and port.get("targetPort", port["port"]) in (
                port["port"],
                port["name"],
            )
        if name in SETS:
            assert (
                SETS[name]["serviceName"] == name
                and service["clusterIP"] == "None"
                and service["publishNotReadyAddresses"] is True
            )
        assert service.get("type", "ClusterIP") == "ClusterIP", "nothing is published outside of the cluster"


def test_the_zookeepers_are_named_one_by_one_everywhere() -> None:
    hosts = [f"zookeeper-{number}.zookeeper" for number in range(SETS["zookeeper"]["replicas"])]
    assert settings_of_all()["PINOTPY_ZK_ADDRESS"] == ",".join(f"{host}:2181" for host in hosts)
    members = next(entry["value"] for entry in container("zookeeper")["env"] if entry["name"] == "ZOO_SERVERS")
    assert members.split() == [f"server.{number}={host}:2888:3888;2181" for number, host in enumerate(hosts, 1)]
    assert len(hosts) % 2 == 1


def test_network_policies_name_pods_and_ports_that_exist_and_guard_the_zookeepers() -> None:
    policies = of_kind("NetworkPolicy")
    for policy in policies.values():
        selected = policy["podSelector"]
        names = (
            [selected["matchLabels"]["app.kubernetes.io/name"]]
            if "matchLabels" in selected
            else selected["matchExpressions"][0]["values"]
        )
        for rule in policy["ingress"]:
            for name in names:
                assert {port["port"] for port in rule["ports"]} <= {port["name"] for port in container(name)["ports"]}
    guarded = policies["zookeeper"]["ingress"]
    assert all("from" in rule for rule in guarded)
    assert guarded[0]["from"][0]["podSelector"]["matchExpressions"][0]["values"] == list(ROLES)


def test_nothing_in_them_is_a_secret() -> None:
    assert not of_kind("Secret")
    for document in DOCUMENTS:
        for text in strings(document):
            assert not re.search(r"scrypt\$|pt_[0-9a-f]{16}_|[0-9a-f]{32}|BEGIN .*KEY", text), text


def test_every_image_is_pinned_by_the_kustomization() -> None:
    used = {container(name)["image"] for name in SETS}
    assert used == {image["name"] for image in KUSTOMIZATION["images"]}
    for image in KUSTOMIZATION["images"]:
        assert image["newTag"] not in ("", "latest")
