/** The pictures that the generator sees. */

export interface EvidenceOptions {
  /** The greatest number of pictures, at least 1. */
  readonly maxImages: number;
  /** `newest`: crops from the newest on, then pages from the newest on. `upstream`: pages, then crops, in the order in which they were shown. */
  readonly order: 'newest' | 'upstream';
}

/** The generator's pictures, each once, at most `maxImages`. */
export function generatorImages<I>(pages: readonly I[], crops: readonly I[], { maxImages, order }: EvidenceOptions): I[] {
  const all = order === 'upstream' ? [...pages, ...crops] : [...crops.toReversed(), ...pages.toReversed()];
  return [...new Set(all)].slice(0, maxImages);
}
