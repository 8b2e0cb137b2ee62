/** CRC-32 (zlib's polynomial) and CRC-32C (Castagnoli), both reflected, one table each. */
export function crc32(bytes: Uint8Array, seed = 0): number {
  return run(zlibTable, bytes, seed);
}

export function crc32c(bytes: Uint8Array): number {
  return run(castagnoliTable, bytes, 0);
}

/** TFRecord's masking, so that a checksum of data that holds checksums stays useful. */
export function maskedCrc32c(bytes: Uint8Array): number {
  const crc = crc32c(bytes);
  return (((crc >>> 15) | (crc << 17)) + 0xa282ead8) >>> 0;
}

const zlibTable = table(0xedb88320);
const castagnoliTable = table(0x82f63b78);

function run(byByte: Uint32Array, bytes: Uint8Array, seed: number): number {
  let crc = ~seed;
  for (const byte of bytes) crc = (crc >>> 8) ^ byByte[(crc ^ byte) & 0xff]!;
  return ~crc >>> 0;
}

function table(polynomial: number): Uint32Array {
  return Uint32Array.from({ length: 256 }, (_, n) => {
    let crc = n;
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ polynomial : crc >>> 1;
    return crc >>> 0;
  });
}
