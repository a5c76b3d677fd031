"""A store behind an S3 API: the same keys and arrays as a local one, made once."""

import multiprocessing

import numpy as np
import pytest

from leap.pipeline import Context, IngestOptions, Workforce, encode, extract
from leap.store import Store
from leap.store.artifact import folder_of
from leap.store.collect import plan_collection, plan_removal, remove, stale_builds
from leap.store.errors import DamagedArtifactWarning, InvalidInputError

PARTS = IngestOptions(partition_mb=0.2)
PATIENCE_SECONDS = 120


@pytest.fixture(scope="module")
def filled(s3):
    """Address of a store in which letters-low was extracted and encoded, and the reports of that."""
    context = Context(Store.open("s3://shared/filled"), workforce=Workforce(0))
    reports = extract("letters-low", 1, ingest_options=PARTS, context=context).artifacts
    reports += encode(
        "letters-low", ["rwpe", "lape"], params={"dim": 4}, ingest_options=PARTS, context=context
    ).artifacts[1:]
    return "s3://shared/filled", reports


def test_a_remote_store_holds_what_a_local_one_holds(filled, tmp_path):
    url, reports = filled
    assert [report.cached for report in reports] == [False] * 4
    assert reports[1].partitions > 1
    context = Context(Store.open(tmp_path / "local"), workforce=Workforce(0))
    here = extract("letters-low", 1, ingest_options=PARTS, context=context).artifacts
    here += encode("letters-low", ["rwpe", "lape"], params={"dim": 4}, ingest_options=PARTS, context=context).artifacts[
        1:
    ]
    assert [report.key for report in here] == [report.key for report in reports]
    remote = Store.open(url)
    assert remote.keys() == context.store.keys()
    for key in remote.keys():  # noqa: SIM118  a store is no dictionary
        there, here = remote.get(key), context.store.get(key)
        assert there.manifest == here.manifest
        for part in here.partitions:
            expected = here.read(part.index)
            for name, array in there.read(part.index).items():
                assert array.tobytes() == expected[name].tobytes()
    assert remote.find("neighborhoods", "letters-low").neighborhoods().num_nodes > 0


def test_a_second_request_is_answered_from_the_remote_store(filled):
    url, reports = filled
    context = Context(Store.open(url), workforce=Workforce(0))
    again = extract("letters-low", 1, ingest_options=PARTS, context=context).artifacts
    assert [(report.key, report.cached) for report in again] == [(report.key, True) for report in reports[:2]]
    view = encode("letters-low", "rwpe", params={"dim": 2}, ingest_options=PARTS, context=context)["rwpe"]
    assert (view.key, view.cached, view.view) == (reports[2].key, True, True)
    assert context.store.usage(reports[0].key).uses > 0


def test_a_remote_store_verifies_and_finds_damage(filled, s3):
    url, reports = filled
    store = Store.open(url)
    assert store.verify() == []
    assert store.unfinished() == []
    path = f"{url.removeprefix('s3://')}/{folder_of(reports[2].key)}/partitions.parquet"
    data = s3.cat_file(path)
    s3.pipe_file(path, data[:-1] + b"?")
    [problem] = store.verify()
    assert "partitions.parquet is damaged" in problem.message
    s3.rm(path)
    [problem] = store.verify()
    assert "partitions.parquet is missing" in problem.message
    context = Context(store, workforce=Workforce(0))
    with pytest.warns(DamagedArtifactWarning):
        report = encode("letters-low", "rwpe", params={"dim": 4}, ingest_options=PARTS, context=context)["rwpe"]
    assert (report.key, report.cached) == (reports[2].key, False)
    assert store.verify() == []


def test_names_collection_and_removal_work_remotely(url):
    context = Context(Store.open(url), workforce=Workforce(0))
    extract("letters-low", 1, context=context)
    encode("letters-low", "rwpe", params={"dim": 3}, context=context)
    store = context.store
    walks, dataset = (store.find(kind, "letters-low").key for kind in ("rwpe", "dataset"))
    store.references.tag("best", walks)
    assert store.get("best").key == walks
    month = store.usage(walks).created + 30 * 86_400
    verdicts = {verdict.artifact.key: verdict.keep for verdict in plan_collection(store, now=month)}
    assert (verdicts[walks], verdicts[dataset], sum(verdicts.values())) == (True, True, 2)
    assert len(store.keys()) == 3, "a plan removes nothing"
    remove(store, [artifact.key for artifact in plan_removal(store, ["best"], cascade=False)])
    assert walks not in set(store.keys())
    assert store.references.tags() == {}
    assert store.verify() == []


def test_work_under_way_is_not_taken_for_stale(url):
    store = Store.open(url)
    with store.building("0" * 40):
        store.location.write_bytes(f"{folder_of('0' * 40)}/part-00000/zarr.json", b"{}")
        assert store.unfinished() == ["0" * 40]
        assert stale_builds(store, keep_days=1) == []


def _ask(url, barrier, answers):
    context = Context(Store.open(url), workforce=Workforce(0))
    barrier.wait()
    answers.put([(report.key, report.cached) for report in extract("letters-low", 1, context=context).artifacts])


def test_of_two_processes_one_does_the_work(url):
    spawn = multiprocessing.get_context("spawn")
    barrier, answers = spawn.Barrier(2), spawn.Queue()
    askers = [spawn.Process(target=_ask, args=(url, barrier, answers)) for _ in range(2)]
    for asker in askers:
        asker.start()
    one, two = (answers.get(timeout=PATIENCE_SECONDS) for _ in askers)
    for asker in askers:
        asker.join()
    assert [key for key, _ in one] == [key for key, _ in two]
    for (_, mine), (_, theirs) in zip(one, two, strict=True):
        assert sorted([mine, theirs]) == [False, True]


def test_a_removal_that_stops_halfway_leaves_no_damaged_artifact(url, monkeypatch):
    context = Context(Store.open(url), workforce=Workforce(0))
    key = encode("letters-low", "rwpe", params={"dim": 3}, context=context)["rwpe"].key
    location = context.store.location
    whole = type(location).remove

    def interrupted(self, path):
        if path == folder_of(key):
            whole(self, f"{path}/part-00000")
            raise KeyboardInterrupt
        whole(self, path)

    monkeypatch.setattr(type(location), "remove", interrupted)
    with pytest.raises(KeyboardInterrupt):
        remove(context.store, [key])
    monkeypatch.undo()
    assert context.store.unfinished() == [key]
    assert context.store.verify() == []


def test_a_store_that_cannot_be_reached_is_an_error_of_ours(s3, monkeypatch):
    import s3fs

    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    s3fs.S3FileSystem.clear_instance_cache()
    try:
        with pytest.raises(InvalidInputError, match="cannot open the store at s3://shared/x"):
            Store.open("s3://shared/x")
    finally:
        s3fs.S3FileSystem.clear_instance_cache()


def test_a_scheme_that_nothing_answers_to_is_an_error_of_ours():
    with pytest.raises(InvalidInputError, match="nonsense"):
        Store.open("nonsense://bucket/store")


def test_a_prefix_with_other_things_is_not_a_store(s3, url):
    from leap.store.errors import NotAStoreError

    s3.pipe_file(f"{url.removeprefix('s3://')}/thesis.tex", b"precious")
    with pytest.raises(NotAStoreError, match=r"thesis\.tex"):
        Store.open(url)


def test_large_arrays_survive_the_way(url):
    from leap.store import Manifest, Partition

    part = Partition(index=0, graph_lo=0, graph_hi=1, node_lo=0, node_hi=1)
    data = np.random.default_rng(0).random((3_000_000,))
    store = Store.open(url)
    with store.building("1" * 40) as build:
        build.writer.write(part, {"noise": data}, {})
        draft = Manifest(
            kind="rwpe", key="1" * 40, dataset="x", params={}, algorithm=1, source="", content="", partitions=[part]
        )
        build.publish(draft, {})
    assert np.array_equal(store.get("1" * 40).load("noise"), data)


def test_a_look_up_makes_as_many_requests_of_a_large_store_as_of_a_small_one(s3, url, tmp_path, monkeypatch):
    from leap.store import Manifest
    from leap.store.keys import derived_key
    from leap.store.request import Request

    monkeypatch.setattr("os.fsync", lambda file: None)  # these need not survive a power cut
    asked = []
    s3.s3.meta.events.register("request-created.s3", lambda **_: asked.append(1))
    counts = []
    for artifacts in (3, 60):
        local = Store.open(tmp_path / f"of-{artifacts}")
        keys = []
        for number in range(artifacts):
            params, source = {"dim": 1000 - number}, "s" * 64 if number % 2 else f"{number:064d}"
            keys.append(derived_key("rwpe", source, params, 1))
            with local.building(keys[-1]) as build:
                draft = Manifest(
                    kind="rwpe", key=keys[-1], dataset=f"d{number}", params=params, algorithm=1, source=source,
                    content=source,
                )  # fmt: skip
                build.publish(draft, {})
        target = f"{url}/of-{artifacts}"
        for part in ("leap-store.json", "artifacts", "index"):
            s3.put(f"{local.url}/{part}", f"{target}/{part}", recursive=True)
        store = Store.open(target)
        look_ups = {
            "key": lambda store=store, key=keys[1]: store.get(key),
            "name": lambda store=store: store.find("rwpe", "d0", dim=5),
            "view": lambda store=store: store.answer(Request("rwpe", "s" * 64, {"dim": 5}, 1)),
            "miss": lambda store=store: store.answer(Request("rwpe", "s" * 64, {"dim": 1001}, 1)),
        }
        counts.append({})
        for name, look_up in look_ups.items():
            asked.clear()
            found = look_up()
            assert (found is None) == (name == "miss")
            counts[-1][name] = len(asked)
    assert counts[0] == counts[1]
    assert counts[0]["key"] <= 2
