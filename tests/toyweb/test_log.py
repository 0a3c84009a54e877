"""The log reads back as written, leaves out a torn line, and lets the later line of a request count."""

from __future__ import annotations

from dataclasses import replace

from pipelines.toyweb import Log, Row, log

ROW = Row(
    1,
    5,
    None,
    None,
    9,
    "a.test",
    "GET",
    "/é\n",
    None,
    0,
    False,
    0,
    "127.0.0.1:9",
    "127.20.0.1",
    1,
    1,
    "agent",
)


def test_rows_read_back_as_written(tmp_path):
    path = tmp_path / "log"
    rows = [ROW, replace(ROW, id=2, t_ms=7, status=200, end_ms=8, whole=True)]
    written = Log(path)
    for row in rows:
        written.write(row)
    assert log.read(path) == rows == written.rows()
    written.close()


def test_the_later_line_of_a_request_counts_and_a_torn_one_does_not(tmp_path):
    path = tmp_path / "log"
    written = Log(path, keep=False)
    written.write(ROW)
    written.write(replace(ROW, end_ms=6))
    written.close()
    with path.open("ab") as file:
        file.write(b'{"id": 3, "t_ms"')
    assert log.read(path) == [replace(ROW, end_ms=6)]


def test_a_second_server_goes_on_in_the_same_file(tmp_path):
    path = tmp_path / "log"
    for start in (5, 50):
        written = Log(path)
        written.write(replace(ROW, t_ms=start))
        written.close()
    assert [row.t_ms for row in log.read(path)] == [5, 50]
