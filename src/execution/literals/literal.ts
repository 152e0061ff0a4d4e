/** Values that Python writes as literals, as data. The name of a kind is the value's Python type. */
export type Literal =
  | { readonly kind: 'None' | 'Ellipsis' }
  | LiteralNumber
  | LiteralText
  | { readonly kind: 'tuple' | 'list'; readonly items: readonly Literal[] }
  | { readonly kind: 'set'; readonly items: readonly Literal[] }
  /** A repeated key has its last value. */
  | { readonly kind: 'dict'; readonly entries: readonly (readonly [key: Literal, value: Literal])[] };

export type LiteralNumber =
  | { readonly kind: 'bool'; readonly value: boolean }
  | { readonly kind: 'int'; readonly value: bigint }
  | { readonly kind: 'float'; readonly value: number }
  | { readonly kind: 'complex'; readonly real: number; readonly imaginary: number };

export interface LiteralText {
  readonly kind: 'str' | 'bytes';
  /** The characters; of bytes, one of U+0000 to U+00FF for each byte. */
  readonly value: string;
  /** Equal for equal texts, and only for them: JavaScript does not tell two escaped halves of a pair from the whole character, Python does. */
  readonly key: string;
}

/** The reason why a string is not a literal. Thrown and caught within this folder. */
export class LiteralProblem extends Error {}
