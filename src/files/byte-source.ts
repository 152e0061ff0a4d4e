/**
 * Files that are read by name: from a folder on this machine (`folder.ts`) or from a web server. The engine and the tokenizers read models and adapters only through
 * it, so they also run without a file system. Imports nothing of Node.
 */

/** A file opened for reading; Node's FileHandle is one. */
export interface ByteFile {
  stat(): Promise<{ readonly size: number }>;
  /** Reads up to `length` bytes into `bytes` from `offset`, beginning at `position` of the file; 0 at its end. */
  read(bytes: Uint8Array, offset: number, length: number, position: number): Promise<{ readonly bytesRead: number }>;
  close(): Promise<void>;
}

export interface ByteSource {
  /** Its folder or address, for messages. */
  readonly path: string;
  /** The path or address of one of its files, for messages. */
  pathOf(name: string): string;
  /** The caller closes the file. Rejects with an error whose `code` is `ENOENT` if it is missing. */
  open(name: string): Promise<ByteFile>;
  /** Rejects with an error whose `code` is `ENOENT` if nothing is there. */
  isFolder(): Promise<boolean>;
  /** What changed in an adapter after it was written, in words; null if nothing did, or if that is unknown. @default unknown */
  adapterFault?(): Promise<string | null>;
}
