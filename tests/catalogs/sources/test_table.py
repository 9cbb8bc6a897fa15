"""The user's own table: what is read, and what a bad row is told."""

from datetime import date
from pathlib import Path

import pytest

from catalogs.errors import CatalogError
from catalogs.offers import load_offers
from catalogs.sources.table import read_offers

HEADER = (
    "provider,instance_type,region,pricing,gpu,gpu_count,vcpus,memory_gib,price_usd_per_hour,as_of,"
    "billing_increment_s"
)
GOOD = "mine,box,dc1,on-demand,H100-SXM5-80GB,8,128,1024,16.8,2026-11-01,60"


def write(folder: Path, *lines: str) -> Path:
    path = folder / "mine.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_the_shipped_table_is_a_valid_own_table() -> None:
    shipped = Path(__file__).parents[3] / "catalogs" / "offers.csv"
    assert read_offers(shipped) == load_offers()


def test_a_good_table_is_read(tmp_path: Path) -> None:
    (one,) = read_offers(write(tmp_path, HEADER, GOOD))
    assert (one.provider, one.gpu, one.gpu_count, one.price_usd_per_hour) == (
        "mine",
        "H100-SXM5-80GB",
        8,
        16.8,
    )
    assert one.as_of == date(2026, 11, 1)
    assert one.source == str(tmp_path / "mine.csv")


def test_a_spreadsheets_byte_order_mark_blank_lines_and_crlf_are_fine(tmp_path: Path) -> None:
    path = tmp_path / "excel.csv"
    path.write_bytes(f"\ufeff{HEADER}\r\n\r\n{GOOD}\r\n,,,,,,,,,,\r\n".encode())
    assert len(read_offers(path)) == 1


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("gpu_count", "eight", "'eight' is not a number such as 2.49 (no currency sign, no thousands comma)"),
        ("gpu_count", "1.5", "'1.5' is not a whole number"),
        ("gpu_count", "0", "'0' is not a positive number"),
        ("gpu_count", "", "'' is not a whole number: it must not be empty"),
        ("price_usd_per_hour", "$16.80", "'$16.80' is not a number such as 2.49"),
        ("price_usd_per_hour", "-2", "'-2' is not a positive number"),
        ("price_usd_per_hour", "nan", "'nan' is not a positive number"),
        ("price_usd_per_hour", "", "'' is not a number: it must not be empty"),
        ("pricing", "cheap", "'cheap' is not one of on-demand, spot, reserved"),
        ("as_of", "01/11/2026", "'01/11/2026' is not a date such as 2026-11-21"),
        ("provider", " ", "' ' is not a text: it must not be empty"),
        ("vcpus", "many", "'many' is not a number"),
        ("gpu", "H100", "GPU 'H100' can mean H100-NVL-94GB, H100-PCIE-80GB, H100-SXM5-80GB"),
        ("gpu", "MI300X", "GPU 'MI300X' is not in the catalog"),
    ],
)
def test_a_bad_cell_is_named_by_file_line_field_and_value(
    tmp_path: Path, field: str, value: str, expected: str
) -> None:
    cells = dict(zip(HEADER.split(","), GOOD.split(","), strict=True)) | {field: value}
    path = write(tmp_path, HEADER, GOOD.replace("box", "other"), ",".join(cells.values()))
    with pytest.raises(CatalogError) as error:
        read_offers(path)
    assert str(error.value).startswith(f"{path}, line 3, field {field}: ")
    assert expected in str(error.value)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([HEADER], "no row after the header"),
        (
            [HEADER.replace("gpu_count", "gpus"), GOOD],
            "line 1: column gpu_count is missing; mandatory are provider",
        ),
        ([HEADER + ",colour", GOOD + ",red"], "line 1: column 'colour' is unknown; known are provider"),
        ([HEADER + ",vcpus", GOOD + ",3"], "line 1: a column appears twice"),
        (
            [HEADER, GOOD + ",1,2"],
            "line 2: 13 cells where the header has 11; quote a cell that contains a comma",
        ),
        ([HEADER, GOOD, GOOD], "line 3, field instance_type: 'box' is not unique"),
        (
            [HEADER, "mine,cpu,dc1,on-demand,CPU-X86-64,2,8,32,1,2026-11-01,1"],
            "field gpu_count: '2' is not 1: an instance without accelerators is one machine",
        ),
        (
            [HEADER, "mine,cpu,dc1,on-demand,CPU-X86-64,1,,32,1,2026-11-01,1"],
            "field vcpus: '' is not a whole number",
        ),
        ([HEADER, 'mine,"box'], "not a CSV"),
    ],
)
def test_a_bad_table_is_refused_with_what_to_do(tmp_path: Path, lines: list[str], expected: str) -> None:
    with pytest.raises(CatalogError) as error:
        read_offers(write(tmp_path, *lines))
    assert expected in str(error.value)
    assert "mine.csv" in str(error.value)


def test_a_missing_file_a_folder_and_a_binary_are_errors(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match="cannot be read: No such file or directory"):
        read_offers(tmp_path / "none.csv")
    with pytest.raises(CatalogError, match="cannot be read: Is a directory"):
        read_offers(tmp_path)
    binary = tmp_path / "table.xlsx"
    binary.write_bytes(b"PK\x03\x04\xff\xfe\x00")
    with pytest.raises(CatalogError, match="not a UTF-8 text; save the table as CSV"):
        read_offers(binary)
