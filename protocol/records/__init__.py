"""Records and record batches, magic 2.

batches        batches: headers, checksums, stamps, building, control records
record         the records inside a batch
compression    gzip, snappy, lz4 and zstd, which never make more bytes than they are allowed
walk           the check that the records of a batch can be read
shapes         records of one shape, checked together
usual_records  records of the usual form, of any length
times          the timestamps of a batch's records
varint         numbers of seven bits a byte
"""
