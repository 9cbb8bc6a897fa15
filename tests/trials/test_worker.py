"""What a worker does with its process groups, without Ray's help."""

import weakref

from trials.workers.worker import forget_in_meshes


class Thing:
    pass


def test_a_dead_proxy_does_not_keep_a_group_from_being_dropped() -> None:
    thing = Thing()
    proxy = weakref.proxy(thing)
    del thing
    forget_in_meshes(object())
    assert type(proxy) is weakref.ProxyType
