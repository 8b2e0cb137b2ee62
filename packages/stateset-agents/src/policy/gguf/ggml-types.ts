/** Every type that a tensor of a GGUF file can have: its number, how many numbers make a block, and the bytes of a block. */
const types = {
  F32: [0, 1, 4],
  F16: [1, 1, 2],
  Q4_0: [2, 32, 18],
  Q4_1: [3, 32, 20],
  Q5_0: [6, 32, 22],
  Q5_1: [7, 32, 24],
  Q8_0: [8, 32, 34],
  Q8_1: [9, 32, 40],
  Q2_K: [10, 256, 84],
  Q3_K: [11, 256, 110],
  Q4_K: [12, 256, 144],
  Q5_K: [13, 256, 176],
  Q6_K: [14, 256, 210],
  Q8_K: [15, 256, 292],
  IQ2_XXS: [16, 256, 66],
  IQ2_XS: [17, 256, 74],
  IQ3_XXS: [18, 256, 98],
  IQ1_S: [19, 256, 50],
  IQ4_NL: [20, 32, 18],
  IQ3_S: [21, 256, 110],
  IQ2_S: [22, 256, 82],
  IQ4_XS: [23, 256, 136],
  I8: [24, 1, 1],
  I16: [25, 1, 2],
  I32: [26, 1, 4],
  I64: [27, 1, 8],
  F64: [28, 1, 8],
  IQ1_M: [29, 256, 56],
  BF16: [30, 1, 2],
  TQ1_0: [34, 256, 54],
  TQ2_0: [35, 256, 66],
  MXFP4: [39, 32, 17],
  NVFP4: [40, 64, 36],
  Q1_0: [41, 128, 18],
} as const satisfies Record<string, readonly [id: number, block: number, bytes: number]>;

export type GgmlType = keyof typeof types;

export interface GgmlFormat {
  /** As the file writes it. */
  id: number;
  /** Numbers in a block; blocks lie along a row, and a row holds whole ones. */
  block: number;
  /** Bytes of a block. */
  bytes: number;
}

export function ggmlFormat(type: GgmlType): GgmlFormat {
  const [id, block, bytes] = types[type];
  return { id, block, bytes };
}

const byId = new Map(Object.entries(types).map(([name, [id]]) => [id as number, name as GgmlType]));

export function ggmlTypeOf(id: number): GgmlType | undefined {
  return byId.get(id);
}

/** Types that llama.cpp had for a time: what old files mean by numbers that have no type now. */
export const formerTypes: Readonly<Record<number, string>> = {
  ...{ 4: "Q4_2", 5: "Q4_3", 31: "Q4_0_4_4", 32: "Q4_0_4_8", 33: "Q4_0_8_8" },
  ...{ 36: "IQ4_NL_4_4", 37: "IQ4_NL_4_8", 38: "IQ4_NL_8_8" },
};
