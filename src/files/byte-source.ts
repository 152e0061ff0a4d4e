/**
 * Files that are read by name: a folder on this machine (`folder.ts`), or what a web server sends. The engine and the tokenizers read models and adapters through it
 * alone, so they also run where there is no file system. Imports nothing of Node.
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
  /** The caller closes the file. Rejects with an error whose `code` is `ENOENT` where it is missing. */
  open(name: string): Promise<ByteFile>;
  /** Rejects with an error whose `code` is `ENOENT` where nothing is there. */
  isFolder(): Promise<boolean>;
}
