import type { TokenVectors } from './token-vectors.ts';

export interface Picture {
  readonly bytes: Uint8Array;
  /** `image/png`, `image/jpeg` or `image/webp`. */
  readonly mediaType: string;
}

/** A model that makes vectors of queries and pictures, to be compared by MaxSim. */
export interface VectorEncoder {
  /** For results: model and server, without credentials. */
  readonly name: string;
  /** Distinguishes the model's vectors from another model's. */
  readonly identity: string;
  /** One for each text. Throws RetrievalError. */
  encodeTexts(texts: readonly string[], signal: AbortSignal): Promise<readonly TokenVectors[]>;
  /** Throws RetrievalError. */
  encodePicture(picture: Picture, signal: AbortSignal): Promise<TokenVectors>;
  close(): Promise<void>;
}
