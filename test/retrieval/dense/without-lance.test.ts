import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { serveEmbeddings, WORDS_MODEL } from './served-embeddings.ts';

const program = join(import.meta.dirname, '../../../src/cli/vf-index.ts');
/** A process that imports it finds no package @lancedb/lancedb, installed or not. */
const HIDE = `
import { registerHooks } from 'node:module';
registerHooks({
  resolve(specifier, context, next) {
    if (!specifier.startsWith('@lancedb/')) return next(specifier, context);
    throw Object.assign(new Error('Cannot find package ' + specifier), { code: 'ERR_MODULE_NOT_FOUND' });
  },
});
`;

describe('vf-index --dense without LanceDB', () => {
  it('names the package and the command that installs it, in one line, before anything is embedded (exit 2)', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'without-lance-'));
    await using server = await serveEmbeddings();
    try {
      writeFileSync(join(folder, 'corpus.jsonl'), '{"contents": "a"}\n');
      const hide = `data:text/javascript,${encodeURIComponent(HIDE)}`;
      const args = [
        '--import',
        hide,
        '--conditions=vf-search-source',
        program,
        'corpus.jsonl',
        '-o',
        'made',
        '--dense',
        server.url,
        '-m',
        WORDS_MODEL,
      ];
      const child = spawn(process.execPath, args, { cwd: folder });
      let stderr = '';
      child.stderr.on('data', (text) => (stderr += String(text)));
      expect(await once(child, 'close')).toEqual([2, null]);
      expect(stderr).toBe(
        'vf-index: Dense retrieval needs the package @lancedb/lancedb, which is not installed. Install it: npm install @lancedb/lancedb@0.39.0\n',
      );
      expect([server.asked.length, existsSync(join(folder, 'made'))]).toEqual([0, false]);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
});
