"""python3 values.py values.parquet, with pyarrow 26."""

import datetime
import decimal
import sys

import pyarrow as pa
import pyarrow.parquet as pq

D = decimal.Decimal
out = sys.argv[1]
t = pa.table({
 "id":pa.array([2**53+1,-(2**62)],pa.int64()),
 "price":pa.array([D("0.57"),D("-12.30")],pa.decimal128(9,2)),
 "wide":pa.array([D("99999999999999999999.9900"),None],pa.decimal256(40,4)),
 "small":pa.array([D("0.05"), D("-0.05")], pa.decimal32(5, 2)),
 "prices":pa.array([[D("1.10"),None],[]],pa.list_(pa.decimal128(20,2))),
 "row":pa.array([{"f":0.1,"d":datetime.date(2024,2,29),"g":{"t":datetime.time(1,2,3,450000)}},None],pa.struct([("f",pa.float32()),("d",pa.date32()),("g",pa.struct([("t",pa.time64("us"))]))])),
 "rows":pa.array([[{"x":D("7.70"),"n":1}],None],pa.list_(pa.struct([("x",pa.decimal128(9,2)),("n",pa.int8())]))),
 "one":pa.array([[{"x":D("7.70")}],[]],pa.list_(pa.struct([("x",pa.decimal128(9,2))]))),
 "map":pa.array([[("a",D("1.50"))],[]],pa.map_(pa.string(),pa.decimal128(9,2))),
 "lists":pa.array([[[0.1],[]],[]],pa.list_(pa.list_(pa.float32()))),
 "float":pa.array([0.1,16777216.0],pa.float32()),
 "date":pa.array([datetime.date(2024,2,29),datetime.date(1969,12,31)]),
 "midnight":pa.array([datetime.datetime(2024,2,29),datetime.datetime(1969,12,31,23,59,59)],pa.timestamp("ms")),
 "micros":pa.array([datetime.datetime(2024,2,29,1,2,3,678901),None],pa.timestamp("us")),
 "nanos":pa.array([1709168523000000001,-1],pa.int64()).cast(pa.timestamp("ns")),
 "ms":pa.array([datetime.time(23,59,59),datetime.time(0,0,0,1000)],pa.time32("ms")),
 "nt":pa.array([1,86399999999999],pa.int64()).cast(pa.time64("ns")),
 "bytes":pa.array([b"M\xfcnchen","München".encode()],pa.binary()),
})
pq.write_table(t,out,compression="NONE",use_dictionary=["price"],write_statistics=False)
