"""Times in every form people have them, to seconds and back; durations with units."""

import copy
import math
import pickle
import tracemalloc
from datetime import UTC, date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asvgp.runtime import parallel
from asvgp.times import Duration, TimeAxis, as_duration, is_time

DAY = 86400.0
BERLIN = ZoneInfo("Europe/Berlin")
# Noon, around the change to summer time on 31 March 2024: the days are 24 and 23 hours long.
LOCAL = [datetime(2024, 3, day, 12) for day in (30, 31, 29)]
AWARE = [t.replace(tzinfo=BERLIN) for t in LOCAL]
NAIVE_SECONDS = [DAY, 2 * DAY, 0.0]
AWARE_SECONDS = [DAY, 2 * DAY - 3600.0, 0.0]
STAMPS = np.array(LOCAL, dtype="datetime64[us]")
ZONED = pd.Series(LOCAL).dt.tz_localize("Europe/Berlin")

NAIVE = {
    "datetimes": LOCAL,
    "tuple": tuple(LOCAL),
    "column of datetimes": [[t] for t in LOCAL],
    "datetime64 list": list(STAMPS),
    "timestamps": [pd.Timestamp(t) for t in LOCAL],
    "mixed kinds": [LOCAL[0], pd.Timestamp(LOCAL[1]), STAMPS[2]],
    "object array": np.array(LOCAL, dtype=object),
    "object column": np.array(LOCAL, dtype=object)[:, None],
    "column": STAMPS[:, None],
    "strided": np.repeat(STAMPS, 2)[::2],
    "big-endian": STAMPS.astype(">M8[us]"),
    "multiples": STAMPS.astype("M8[30m]"),
    **{f"M8[{unit}]": STAMPS.astype(f"M8[{unit}]") for unit in ("h", "m", "s", "ms", "us", "ns")},
    **{f"pandas {unit}": pd.Series(STAMPS).dt.as_unit(unit) for unit in ("s", "ms", "us", "ns")},
    "pandas index": pd.DatetimeIndex(STAMPS),
    "pandas array": pd.Series(STAMPS).array,
    "pandas frame": pd.DataFrame({"t": STAMPS}, index=[7, 8, 9]),
    "pandas objects": pd.Series(LOCAL, dtype=object),
    **{f"polars {u}": pl.Series(LOCAL, dtype=pl.Datetime(u)) for u in ("ms", "us", "ns")},
    "polars frame": pl.DataFrame({"t": LOCAL}),
    "polars chunks": pl.concat([pl.Series(LOCAL[:1]), pl.Series(LOCAL[1:])], rechunk=False),
}
ZONES = {
    "datetimes": AWARE,
    "timestamps": [pd.Timestamp(t) for t in AWARE],
    "pandas series": ZONED,
    "pandas ns": ZONED.dt.as_unit("ns"),
    "pandas index": pd.DatetimeIndex(ZONED),
    "pandas array": ZONED.array,
    "pandas frame": ZONED.to_frame(),
    "pandas objects": ZONED.astype(object),
    "polars": pl.Series(LOCAL).dt.replace_time_zone("Europe/Berlin"),
    "polars frame": pl.DataFrame(pl.Series("t", LOCAL).dt.replace_time_zone("Europe/Berlin")),
}
DATES = {
    "dates": [t.date() for t in LOCAL],
    "M8[D]": STAMPS.astype("M8[D]"),
    "polars": pl.Series([t.date() for t in LOCAL]),
    "polars frame": pl.DataFrame({"t": [t.date() for t in LOCAL]}),
    "pandas objects": pd.Series([t.date() for t in LOCAL]),
}


@pytest.mark.parametrize("values", NAIVE.values(), ids=NAIVE)
def test_times_without_a_zone(values):
    assert is_time(values)
    axis = TimeAxis.from_values(values)
    assert axis == TimeAxis(np.datetime64("2024-03-29T12:00", "ns"), None)
    seconds = axis.to_seconds(values)
    assert seconds.dtype == np.float64
    np.testing.assert_array_equal(seconds, NAIVE_SECONDS)
    np.testing.assert_array_equal(axis.to_times(seconds), STAMPS)


@pytest.mark.parametrize("values", ZONES.values(), ids=ZONES)
def test_times_with_a_zone_are_instants(values):
    assert is_time(values)
    axis = TimeAxis.from_values(values)
    assert axis == TimeAxis(np.datetime64("2024-03-29T11:00", "ns"), "Europe/Berlin")
    np.testing.assert_array_equal(axis.to_seconds(values), AWARE_SECONDS)
    elsewhere = pd.Series(ZONED).dt.tz_convert("America/New_York")
    np.testing.assert_array_equal(axis.to_seconds(elsewhere), AWARE_SECONDS)
    np.testing.assert_array_equal(
        axis.to_times(AWARE_SECONDS), ZONED.to_numpy(dtype="datetime64[ns]")
    )


@pytest.mark.parametrize("values", DATES.values(), ids=DATES)
def test_dates_are_midnights(values):
    assert is_time(values)
    axis = TimeAxis.from_values(values)
    assert axis == TimeAxis(np.datetime64("2024-03-29", "ns"), None)
    np.testing.assert_array_equal(axis.to_seconds(values), NAIVE_SECONDS)


def test_months_and_years_are_their_first_days():
    axis = TimeAxis(np.datetime64("2023-01-01", "ns"))
    np.testing.assert_array_equal(
        axis.to_seconds(np.array(["2024-03", "2023-01"], "M8[M]")), [425 * DAY, 0.0]
    )
    np.testing.assert_array_equal(axis.to_seconds(np.array(["2024"], "M8[Y]")), [365 * DAY])


@pytest.mark.parametrize(
    "values",
    [
        [0.0, 1.0],
        [[0.0], [1.0]],
        [],
        [None, math.nan],
        ["2024-01-01"],
        "2024-01-01",
        3.0,
        None,
        np.arange(3),
        np.array([timedelta(1)], dtype="m8[s]"),
        np.array(["a"], dtype=object),
        pd.Series([1.0]),
        pd.Series(["2024-01-01"]),
        pd.Series(pd.to_timedelta(["1h"])),
        pd.DataFrame({"t": STAMPS, "x": 1.0}),
        pl.Series([1.0]),
        pl.Series([timedelta(1)]),
        pl.DataFrame({"t": LOCAL, "x": [1.0, 2.0, 3.0]}),
        pl.DataFrame({"t": LOCAL}).lazy(),
        [pd.Series([1.0])],
    ],
    ids=lambda value: type(value).__name__,  # the same in every process
)
def test_what_is_no_time(values):
    assert not is_time(values)
    with pytest.raises(TypeError, match="X must hold times"):
        TimeAxis.from_values(values)


def test_missing_values_before_the_first_time():
    assert is_time([None, math.nan, pd.NaT, LOCAL[0]])
    assert is_time([None, LOCAL[0]])
    assert not is_time([None, 1.0])


units = st.sampled_from(["s", "ms", "us", "ns"])
instants = st.datetimes(datetime(1700, 1, 1), datetime(2250, 1, 1))


@settings(max_examples=200, deadline=None)
@given(times=st.lists(instants, min_size=1, max_size=20), unit=units, other=units)
def test_seconds_are_the_rounded_exact_difference(times, unit, other):
    stamps = np.array(times, dtype="M8[us]").astype(f"M8[{unit}]")
    axis = TimeAxis.from_values(stamps.astype(f"M8[{other}]"))
    origin = int(axis.origin.astype(np.int64))
    exact = [int(t) - origin for t in stamps.astype("M8[ns]").astype(np.int64)]
    seconds = axis.to_seconds(stamps)
    for got, nanoseconds in zip(seconds, exact, strict=True):
        assert abs(got - nanoseconds / 10**9) <= np.spacing(abs(got))
    back = axis.to_times(seconds).astype(np.int64)
    for got, stamp, distance in zip(
        back, stamps.astype("M8[ns]").astype(np.int64), exact, strict=True
    ):
        assert abs(int(got) - int(stamp)) <= 1 + 1e9 * np.spacing(abs(distance) / 1e9)


@settings(max_examples=200, deadline=None)
@given(
    origin=instants,
    offset=st.integers(-(10**9) * 86400 * 40, 10**9 * 86400 * 40),
)
def test_round_trips_to_the_nanosecond_within_forty_days(origin, offset):
    axis = TimeAxis(np.datetime64(origin, "ns"))
    stamp = np.array([axis.origin + np.timedelta64(offset, "ns")])
    np.testing.assert_array_equal(axis.to_times(axis.to_seconds(stamp)), stamp)


@settings(max_examples=100, deadline=None)
@given(times=st.lists(st.datetimes(), min_size=1, max_size=10))
def test_every_year_python_knows(times):
    axis = TimeAxis.from_values(times)
    seconds = axis.to_seconds(times)
    expected = [(t - times[0]).total_seconds() for t in times]
    np.testing.assert_allclose(seconds - seconds[0], expected, atol=1e-4)


def test_the_whole_range_of_nanoseconds_does_not_overflow():
    ends = np.array(["1678-01-01", "2262-01-01"], "M8[ns]")
    axis = TimeAxis.from_values(ends)
    expected = (ends[1].astype("M8[s]") - ends[0].astype("M8[s]")).astype(float)
    np.testing.assert_array_equal(axis.to_seconds(ends), [0.0, expected])
    np.testing.assert_array_equal(axis.to_times([0.0, expected]), ends)


def test_the_last_fractions_of_a_second_that_nanoseconds_hold():
    ends = np.array([-(2**63) + 1, 2**63 - 1], dtype="M8[ns]")
    axis = TimeAxis.from_values(ends)
    np.testing.assert_allclose(axis.to_seconds(ends), [-0.854775807, 2**63 / 1e9 + 9223372036])


@pytest.mark.parametrize("year", [-100_000, 1, 100_000])
@pytest.mark.parametrize("unit", ["D", "s", "us"])
def test_far_away_times_in_coarse_units(year, unit):
    far = np.datetime64(year - 1970, "Y").astype(f"M8[{unit}]")
    far = np.array([far, far + np.timedelta64(1, "D")])
    axis = TimeAxis.from_values(far)
    seconds = axis.to_seconds(far)
    assert abs(seconds[1] - seconds[0] - DAY) <= 2 * np.spacing(abs(seconds[0]))
    with pytest.raises(ValueError, match="2 of 2 times lie outside 1678 to 2262"):
        axis.to_times([-1e13, 1e13])


def test_finer_than_nanoseconds():
    times = np.array([1_500, 4_000], dtype="M8[ps]")
    axis = TimeAxis.from_values(times)
    np.testing.assert_allclose(axis.to_seconds(times), [0.0, 3e-9], rtol=1e-12)


def test_nanoseconds_of_timestamps_survive_in_lists():
    stamps = [pd.Timestamp(ns, unit="ns", tz="UTC") for ns in (1, 5)]
    axis = TimeAxis.from_values(stamps)
    np.testing.assert_array_equal(axis.to_seconds(stamps), [0.0, 4e-9])
    assert axis.tz == "UTC"


def test_tenths_look_like_tenths():
    times = np.datetime64("2024-01-01T00:00:00.600", "ms") + np.arange(0, 500, 100)
    axis = TimeAxis.from_values(times)
    np.testing.assert_array_equal(axis.to_seconds(times)[:4], [0.0, 0.1, 0.2, 0.3])


def test_long_arrays_are_not_copied(monkeypatch):
    monkeypatch.setattr(parallel, "cores", lambda: 2)
    times = np.datetime64("2024-01-01", "ns") + np.arange(2_000_000)[::-1] * 10**9
    zoned = pd.Series(times).dt.tz_localize("UTC")
    axis = TimeAxis.from_values(zoned)
    tracemalloc.start()
    try:
        seconds = axis.to_seconds(zoned)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    np.testing.assert_array_equal(seconds, np.arange(2_000_000.0)[::-1])
    assert peak < 1.6 * seconds.nbytes


def test_to_times_keeps_shape_and_missing_values():
    axis = TimeAxis(np.datetime64("2024-01-01", "ns"))
    times = axis.to_times([[0.0, np.nan], [-0.25, 1e-9]])
    assert times.dtype == "M8[ns]"
    expected = [["2024-01-01", "NaT"], ["2023-12-31T23:59:59.75", "2024-01-01T00:00:00.000000001"]]
    np.testing.assert_array_equal(times, np.array(expected, dtype="M8[ns]"))
    assert axis.to_times(1.0) == np.datetime64("2024-01-01T00:00:01")
    with pytest.raises(ValueError, match="1 of 2 times lie outside"):
        axis.to_times([0.0, np.inf])


MISSING = np.array(["2024-01-01", "NaT", "2024-01-02", "NaT", "2024-01-03"], "M8[D]")


@pytest.mark.parametrize(
    "values",
    [
        MISSING,
        pd.Series(MISSING),
        pl.Series(MISSING),
        list(MISSING),
        [None if np.isnat(t) else t.item() for t in MISSING],
        [pd.NaT if np.isnat(t) else pd.Timestamp(t) for t in MISSING],
        [math.nan if np.isnat(t) else t.item() for t in MISSING],
    ],
)
def test_missing_times_are_counted_and_named(values):
    message = r"Input X contains NaT in 2 of 5 rows \(1, 3\)\."
    with pytest.raises(ValueError, match=message):
        TimeAxis.from_values(values)
    with pytest.raises(ValueError, match=message):
        TimeAxis(np.datetime64("2024-01-01", "ns")).to_seconds(values)


def test_many_missing_times_are_not_all_named():
    times = np.full(200_000, np.datetime64("NaT", "s"))
    with pytest.raises(ValueError, match=r"200000 of 200000 rows \(0, 1, 2, 3, 4, \.\.\.\)"):
        TimeAxis(np.datetime64("2024-01-01", "ns")).to_seconds(times)
    with pytest.raises(ValueError, match="contains NaT in 1 of 1 rows"):
        TimeAxis.from_values(np.array(["NaT"], dtype="M8"))


@pytest.mark.parametrize(
    "values", [AWARE, ZONED, ZONES["polars"]], ids=["list", "pandas", "polars"]
)
def test_zones_must_be_had_always_or_never(values):
    with pytest.raises(
        ValueError, match=r"X holds times in the time zone Europe/Berlin.* without .*tz_convert"
    ):
        TimeAxis.from_values(LOCAL).to_seconds(values)
    with pytest.raises(
        ValueError, match=r"domain holds times without a time zone.* Europe/Berlin\. .*tz_localize"
    ):
        TimeAxis.from_values(values).to_seconds(STAMPS, name="domain")


def test_mixed_zones_in_one_input():
    other = AWARE[1].astimezone(ZoneInfo("Asia/Tokyo"))
    for values in ([AWARE[0], other], pd.Series([AWARE[0], other], dtype=object)):
        with pytest.raises(
            ValueError,
            match=r"X mixes time zones: Europe/Berlin \(row 0\), Asia/Tokyo \(row 1\).*tz_convert",
        ):
            TimeAxis.from_values(values)
    with pytest.raises(ValueError, match=r"none \(row 0\), Europe/Berlin \(row 2\).*tz_localize"):
        TimeAxis.from_values([LOCAL[0], None, AWARE[1]])
    with pytest.raises(ValueError, match="mixes time zones"):
        TimeAxis.from_values([AWARE[0], date(2024, 1, 1)])


def test_fixed_offsets_and_both_sides_of_a_fold():
    east = timezone(timedelta(hours=2))
    axis = TimeAxis.from_values([datetime(2024, 1, 1, 2, tzinfo=east)])
    assert axis == TimeAxis(np.datetime64("2024-01-01", "ns"), "UTC+02:00")
    assert axis.to_seconds([datetime(2024, 1, 1, tzinfo=UTC)]) == [0.0]
    twice = [datetime(2024, 10, 27, 2, 30, tzinfo=BERLIN, fold=fold) for fold in (0, 1)]
    axis = TimeAxis.from_values(twice)
    np.testing.assert_array_equal(axis.to_seconds(twice), [0.0, 3600.0])


def test_bad_shapes_and_contents():
    with pytest.raises(ValueError, match=r"one column of times, got shape \(3, 2\)"):
        TimeAxis.from_values(np.stack([STAMPS, STAMPS], axis=1))
    with pytest.raises(ValueError, match=r"one column of times, got shape \(\)"):
        TimeAxis.from_values(STAMPS[0])
    with pytest.raises(ValueError, match="it has 0 rows"):
        TimeAxis.from_values(STAMPS[:0])
    with pytest.raises(TypeError, match="X must hold times, but row 1 is 5"):
        TimeAxis.from_values([LOCAL[0], 5])
    with pytest.raises(TypeError, match=r"X must hold times, .* got float64"):
        TimeAxis.from_values(STAMPS).to_seconds(np.arange(3.0))
    with pytest.raises(ValueError, match="too far apart for their unit"):
        TimeAxis.from_values([np.datetime64("0001-01-01", "s"), np.datetime64(0, "ns")])
    assert TimeAxis.from_values(STAMPS).to_seconds(STAMPS[:0]).shape == (0,)


@pytest.mark.parametrize(
    "text, seconds",
    [
        ("7 days", 7 * DAY),
        ("7d", 7 * DAY),
        ("7D", 7 * DAY),
        ("1 day", DAY),
        ("36h", 36 * 3600.0),
        ("90 min", 5400.0),
        ("90m", 5400.0),
        ("1.5 weeks", 10.5 * DAY),
        ("2 years", 730.5 * DAY),
        ("1 Year", 365.25 * DAY),
        ("500 ms", 0.5),
        ("10us", 1e-5),
        ("10 µs", 1e-5),
        ("10 μs", 1e-5),
        ("3ns", 3e-9),
        (".5 s", 0.5),
        ("1e3 seconds", 1000.0),
        ("1 day 12 hours", 1.5 * DAY),
        ("1d12h", 1.5 * DAY),
        ("1 day, 6 hours and 30 minutes", 1.25 * DAY + 1800.0),
        ("  2  hrs ", 7200.0),
        (timedelta(days=1, microseconds=5), DAY + 5e-6),
        (timedelta.max, timedelta.max.total_seconds()),
        (np.timedelta64(7, "D"), 7 * DAY),
        (np.timedelta64(20, "ms"), 0.02),
        (np.timedelta64(3, "W"), 21 * DAY),
        (pd.Timedelta("36h"), 36 * 3600.0),
        (pd.Timedelta(5, "ns"), 5e-9),
        (Duration(3.0), 3.0),
    ],
    ids=repr,
)
def test_durations_are_read(text, seconds):
    duration = as_duration(text)
    assert type(duration) is Duration
    assert duration == seconds


@pytest.mark.parametrize("value", [1, 2.0, np.float64(3), True, None, [1], LOCAL[0], np.arange(2)])
def test_what_has_no_unit_is_no_duration(value):
    assert as_duration(value) is None


@pytest.mark.parametrize(
    "text, why",
    [
        ("", "'' is not a number with a unit"),
        ("7", "'7' is not a number with a unit"),
        ("days", "'days' is not a number with a unit"),
        ("7 days 3", "'3' is not a number with a unit"),
        ("1,000 days", "'1,000 days' is not"),
        ("1 day -2 hours", "'-2 hours' is not"),
        ("7 dayz", "unknown unit 'dayz'"),
        ("3 months", "months differ in length"),
        ("3M", "months differ in length"),
        ("3MS", "unknown unit 'MS'"),
        ("--3 s", "'-3 s' is not"),
    ],
)
def test_bad_strings_say_what_is_understood(text, why):
    with pytest.raises(ValueError, match=f"Cannot read '{text}' as a duration: {why}") as caught:
        as_duration(text)
    assert "'7 days', '36h', '1 day 12 hours'" in str(caught.value)


@pytest.mark.parametrize(
    "value",
    [
        "0 days",
        "-7 days",
        "1e400 days",
        timedelta(0),
        timedelta(-1),
        np.timedelta64(-1, "s"),
        np.timedelta64("NaT", "s"),
        pd.NaT,
        pd.Timedelta(-1, "s"),
        Duration(0.0),
        Duration(math.nan),
    ],
    ids=repr,
)
def test_durations_are_positive(value):
    with pytest.raises(ValueError, match="must be positive and finite, got"):
        as_duration(value)


@pytest.mark.parametrize(
    "value", [np.timedelta64(3), np.timedelta64(3, "M"), np.timedelta64(3, "Y")], ids=repr
)
def test_indefinite_timedeltas(value):
    with pytest.raises(ValueError, match="is not a definite duration"):
        as_duration(value)


@pytest.mark.parametrize(
    "seconds, text",
    [
        (7 * DAY, "7 days"),
        (DAY, "1 day"),
        (365.25 * DAY, "365.25 days"),
        (100_000 * 365.25 * DAY, "36525000 days"),
        (5400.0, "1.5 hours"),
        (3600.0, "1 hour"),
        (59.99999999, "1 minute"),
        (90.0, "1.5 minutes"),
        (59.0, "59 seconds"),
        (1.0, "1 second"),
        (0.02, "20 milliseconds"),
        (1e-5, "10 microseconds"),
        (1e-9, "1 nanosecond"),
        (2.5e-10, "0.25 nanoseconds"),
        (math.pi, "3.14159 seconds"),
        (-90 * 60.0, "-1.5 hours"),
        (0.0, "0 seconds"),
        (math.inf, "inf seconds"),
        (1e-30, "1e-21 nanoseconds"),
    ],
)
def test_durations_are_printed_in_sensible_units(seconds, text):
    duration = Duration(seconds)
    assert str(duration) == f"{duration}" == text
    assert repr(duration) == repr(text)


@given(st.floats(1e-9, 1e14))
def test_what_is_printed_reads_back(seconds):
    text = str(Duration(seconds))
    assert "e" not in text.split()[0]
    assert as_duration(text) == pytest.approx(seconds, rel=5.1e-6)
    assert str(as_duration(text)) == text


def test_a_duration_is_a_float():
    duration = Duration(7 * DAY)
    assert duration == 7 * DAY
    assert hash(duration) == hash(7 * DAY)
    assert type(2 * duration) is float
    assert f"{duration:.1f}" == "604800.0"
    assert np.array([duration, 1.0]).dtype == np.float64
    for twin in (
        copy.copy(duration),
        copy.deepcopy(duration),
        *(pickle.loads(pickle.dumps(duration, p)) for p in range(pickle.HIGHEST_PROTOCOL + 1)),
    ):
        assert type(twin) is Duration
        assert twin == duration
    with pytest.raises(AttributeError):
        duration.unit = "days"


def test_an_axis_is_a_value():
    axis = TimeAxis.from_values(AWARE)
    assert pickle.loads(pickle.dumps(axis)) == axis
    assert hash(copy.deepcopy(axis)) == hash(axis)
    with pytest.raises(AttributeError):
        axis.tz = None


def test_text_is_read_where_times_are_expected():
    axis = TimeAxis.from_values(np.array(["2024-01-01"], "M8[s]"))
    for texts in (
        ["2024-01-02", "2024-01-01T00:00:30"],
        pd.Series(["2024-01-02", "2024-01-01T00:00:30"]),
    ):
        assert axis.to_seconds(texts).tolist() == [86400.0, 30.0]
    assert not is_time(["2024-01-02"])
    with pytest.raises(ValueError, match=r"row 1 is .soon.\. Write times as"):
        axis.to_seconds(["2024-01-02", "soon"])
    with pytest.raises(ValueError, match="fitted to times without"):
        axis.to_seconds(["2024-01-02T00:00+01:00"])


@pytest.mark.parametrize("frequency", ["M", "Q", "D", "W"])
def test_periods_of_pandas_stand_for_their_start(frequency):
    periods = pd.period_range("2020-01-01", periods=6, freq=frequency)
    starts = periods.to_timestamp()
    axis = TimeAxis.from_values(periods)
    listed = [*periods]
    objects, frame = np.array(listed, dtype=object), periods.to_frame(name="t")
    for given_as in (periods, pd.Series(periods), frame, listed, objects):
        assert is_time(given_as)
        np.testing.assert_array_equal(axis.to_seconds(given_as), axis.to_seconds(starts))
    with pytest.raises(ValueError, match=r"NaT in 1 of 2 rows \(1\)"):
        axis.to_seconds(pd.PeriodIndex(["2020-01", None], freq="M"))
