"""Whatever happens to a file, readers either read it or say what is wrong with it."""

import pytest

from file_fuzzing import READERS, fuzz, seeds


@pytest.mark.parametrize("suffix", READERS)
def test_damaged_files(tmp_path, suffix):
    outcome = fuzz(suffix, 2_000, tmp_path)
    for number, data, what in outcome.failures:
        pytest.fail(f"file {number}, {data!r}: {what}")
    assert outcome.read > 20  # the damage is not always so bad that nothing is left to find
    assert outcome.refused > 200


@pytest.mark.parametrize("suffix", READERS)
def test_files_before_the_damage_are_sound(tmp_path, suffix):
    path = tmp_path / f"sound.{suffix}"
    for data in seeds(tmp_path)[suffix]:
        path.write_bytes(data)
        READERS[suffix](path)
