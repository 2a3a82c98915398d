"""Images where no registry can be asked: a base with pip's settings of this machine, and ZooKeeper and Kafka of the
same jars as the official ones. They have the official names, so that docker-compose.yml is tried as it is.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from container_engine import CommandFailedError, Engine, NoEngineError

from pinotpy.service.embedded_zookeeper import find_java
from pinotpy.service.zookeeper_jars import find_jars

LOCAL_BASE = "localhost/python:base"
_FOLDER = Path(__file__).resolve().parent.parent / "deployment" / "images"
_BASE, _JRE = "localhost/pinotpy-test-base:latest", "localhost/pinotpy-test-jre:latest"
_ZOOKEEPER, _KAFKA = "docker.io/library/zookeeper:3.9", "docker.io/apache/kafka:4.1.0"
_CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion><groupId>org.pinotpy</groupId><artifactId>kafka-for-tests</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>4.1.0</version></dependency>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>4.1.0</version></dependency>
  </dependencies>
</project>
"""


def check_images(engine: Engine) -> None:
    """Raises NoEngineError where neither the local base is there nor a registry gives the images that
    docker-compose.yml names.
    """
    if engine.has_image(LOCAL_BASE):
        return
    for image in (_ZOOKEEPER, _KAFKA):
        if not engine.has_image(image):
            try:
                engine.run("pull", "--quiet", image, timeout_s=300)
            except CommandFailedError as error:
                said = str(error)[-200:]
                raise NoEngineError(
                    f"{engine.name} works, but there is no image {LOCAL_BASE}, and no registry gives {image}: {said}"
                ) from None


class StandIns:
    """Builds them in `folder`, which it makes; `images` are those that it built and that can go again."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self._engine = engine
        self._folder = folder
        self.images: list[str] = []

    def build(self) -> str:
        """Build what is missing; returns the name of the base image for the Dockerfile."""
        self._build_base()
        self._build("jre", _JRE, self._java, "--build-arg", f"BASE_IMAGE={LOCAL_BASE}")
        self._build("zookeeper", _ZOOKEEPER, lambda context: _copy_files(find_jars(), context / "jars"))
        self._build("kafka", _KAFKA, self._kafka)
        return _BASE

    def _build(self, name: str, image: str, fill: object, *options: str) -> None:
        self.images.append(image)
        if self._engine.has_image(image):
            return
        context = self._folder / name
        shutil.copytree(_FOLDER / name, context)
        assert callable(fill)
        fill(context)
        self._engine.run("build", *options, "--tag", image, context, timeout_s=600)
        shutil.rmtree(context)

    def _build_base(self) -> None:
        """Certificates and pip's settings of this machine, on top of the local base: a registry behind a proxy asks for
        them.
        """
        context = self._folder / "base"
        context.mkdir(parents=True)
        certificates = Path(os.environ.get("PIP_CERT") or os.environ.get("SSL_CERT_FILE") or _CERTIFICATES)
        lines = [f"FROM {LOCAL_BASE}"]
        if certificates.is_file():
            shutil.copy(certificates, context / "certificates.crt")
            lines += [f"COPY certificates.crt {_CERTIFICATES}", f"ENV PIP_CERT={_CERTIFICATES}"]
        lines += [
            f"ENV {name}={os.environ[name]}" for name in ("PIP_INDEX_URL", "PIP_DEFAULT_TIMEOUT") if name in os.environ
        ]
        (context / "Dockerfile").write_text("\n".join(lines) + "\n")
        self._engine.run("build", "--tag", _BASE, context, timeout_s=300)
        self.images.append(_BASE)

    @staticmethod
    def _java(context: Path) -> None:
        shutil.copytree(find_java().parent.parent, context / "java-runtime")

    @staticmethod
    def _kafka(context: Path) -> None:
        (context / "pom.xml").write_text(_POM)
        command = [
            "mvn",
            "--batch-mode",
            "--quiet",
            "dependency:copy-dependencies",
            f"-DoutputDirectory={context / 'jars'}",
            "-DincludeScope=runtime",
        ]
        subprocess.run(command, cwd=context, check=True, capture_output=True, timeout=600, stdin=subprocess.DEVNULL)


def _copy_files(files: list[Path], target: Path) -> None:
    target.mkdir()
    for file in files:
        shutil.copy(file, target)
