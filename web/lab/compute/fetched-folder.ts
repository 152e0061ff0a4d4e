/** A folder of a web server as a source of bytes: each file is fetched whole when it is opened. */
import type { ByteFile, ByteSource } from '../../../src/files/byte-source.ts';

export class FetchedFolder implements ByteSource {
  /** The folder's name, which adapters record as that of their base. */
  readonly path: string;
  readonly #address: URL;

  /** @param address of the folder, with a slash at the end */
  constructor(path: string, address: URL) {
    this.path = path;
    this.#address = address;
  }

  pathOf(name: string): string {
    return `${this.path}/${name}`;
  }

  async open(name: string): Promise<ByteFile> {
    const address = new URL(name, this.#address);
    const response = await fetch(address);
    if (response.status === 404) throw Object.assign(new Error(`${address.pathname} does not exist on the server`), { code: 'ENOENT' });
    if (!response.ok) throw new Error(`the server answered ${response.status} for ${address.pathname}`);
    return new FetchedFile(new Uint8Array(await response.arrayBuffer()));
  }

  isFolder(): Promise<boolean> {
    return Promise.resolve(true);
  }
}

class FetchedFile implements ByteFile {
  readonly #bytes: Uint8Array;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  async stat(): Promise<{ readonly size: number }> {
    return { size: this.#bytes.length };
  }

  async read(bytes: Uint8Array, offset: number, length: number, position: number): Promise<{ readonly bytesRead: number }> {
    const part = this.#bytes.subarray(position, position + length);
    bytes.set(part, offset);
    return { bytesRead: part.length };
  }

  async close(): Promise<void> {}
}
