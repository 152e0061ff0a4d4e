/** Serves the lab on this machine. */
import { join } from 'node:path';
import { packageRoot } from '../../data/package-root.ts';
import { labApp } from '../../server/lab/lab-app.ts';
import { listen } from '../../server/listen.ts';
import type { CommandContext } from '../command-line.ts';
import { failureNotes } from '../serve/serving.ts';

export interface ServedLab extends AsyncDisposable {
  readonly address: string;
}

/** Throws ConfigError if the address cannot be used. */
export async function serveLab({ host, port }: { readonly host: string; readonly port: number }, context: CommandContext): Promise<ServedLab> {
  const root = packageRoot();
  const app = labApp({
    page: join(root, 'dist/web/lab'),
    models: join(root, 'models'),
    kernels: join(root, 'dist/src/engine/kernels/wasm'),
    host,
    onFailure: failureNotes(context),
  });
  const server = await listen(app, { host, port });
  return { address: `${server.url}/`, [Symbol.asyncDispose]: () => server.close({ graceMs: 1000 }) };
}
