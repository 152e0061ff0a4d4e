/** A folder on this machine, as a source of bytes. */
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { ByteFile, ByteSource } from './byte-source.ts';
import { openRegularFile } from './regular-file.ts';
import { adapterFault } from './written-files.ts';

export class Folder implements ByteSource {
  readonly path: string;

  constructor(path: string) {
    this.path = path;
  }

  pathOf(name: string): string {
    return join(this.path, name);
  }

  /** Rejects with ConfigError if the path is something other than a file, else with the system's error. */
  open(name: string): Promise<ByteFile> {
    return openRegularFile(this.pathOf(name));
  }

  async isFolder(): Promise<boolean> {
    return (await stat(this.path)).isDirectory();
  }

  adapterFault(): Promise<string | null> {
    return adapterFault(this.path);
  }
}
