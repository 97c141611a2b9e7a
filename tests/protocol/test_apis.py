"""What is known of the APIs before any of their messages is."""

from __future__ import annotations

import subprocess
import sys

import pytest

from protocol import apis, messages
from protocol.apis import APIS, INIT_PRODUCER_ID, PRODUCE, Api
from protocol.schema.declaration import Versions, declaration_of


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_messages_are_of_the_api(api: Api) -> None:
    for cls, kind in ((api.request, "Request"), (api.response, "Response")):
        assert cls.__name__ == api.name + kind
        assert declaration_of(cls).versions == api.versions
        assert declaration_of(cls).flexible == api.flexible


def test_all_but_two_advertise_what_they_declare() -> None:
    exceptions = {api.name: api.advertised for api in APIS.values() if api.advertised != api.versions}
    assert exceptions == {PRODUCE.name: Versions(0, 13), INIT_PRODUCER_ID.name: Versions(0, 5)}


def test_messages_are_imported_when_they_are_asked_for() -> None:
    asked = f"from {apis.__name__} import FETCH; FETCH.request"
    listed = f"import sys; print([name for name in sys.modules if name.startswith('{messages.__name__}.')])"
    done = subprocess.run([sys.executable, "-c", f"{asked}\n{listed}"], capture_output=True, text=True, check=True)
    assert done.stdout == f"['{messages.__name__}.fetch']\n"
