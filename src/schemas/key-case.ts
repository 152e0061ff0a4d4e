/** Names are camelCase in code and snake_case on disk and wire. Keys that are names from elsewhere stay unchanged. */

type CamelKey<K extends string> = K extends `${infer Head}_${infer Tail}` ? `${Head}${Capitalize<CamelKey<Tail>>}` : K;

/** The type with keys in camelCase. Values under a key of `Verbatim` stay unchanged. */
export type Camel<T, Verbatim extends string = never> = T extends readonly (infer I)[]
  ? readonly Camel<I, Verbatim>[]
  : T extends object
    ? { readonly [K in keyof T as K extends string ? CamelKey<K> : never]: K extends Verbatim ? T[K] : Camel<T[K], Verbatim> }
    : T;

/** A copy of JSON data with its keys in camelCase. */
export function camelKeys(value: unknown, verbatim: readonly string[] = []): unknown {
  return renamed(value, (key) => key.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase()), verbatim);
}

/** A copy of JSON data with its keys in snake_case. */
export function snakeKeys(value: unknown, verbatim: readonly string[] = []): unknown {
  return renamed(value, (key) => key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`), verbatim);
}

function renamed(value: unknown, rename: (key: string) => string, verbatim: readonly string[]): unknown {
  if (Array.isArray(value)) return value.map((item) => renamed(item, rename, verbatim));
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).map(([key, inner]) => [rename(key), verbatim.includes(key) ? inner : renamed(inner, rename, verbatim)]);
  return Object.fromEntries(entries) as unknown;
}
