import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { checkModel } from '../../../src/doctor/check-model.ts';
import { localModel, modelHere } from '../../../src/sessions/policy/local-model.ts';

it.skipIf(process.platform === 'win32')(
  'localModel, modelHere and the dry run name a pipe or a file in place of a model, or above it, and ask no hub',
  async () => {
    const folder = mkdtempSync(join(tmpdir(), 'vf-local-'));
    const before = process.cwd();
    try {
      mkdirSync(join(folder, 'n'));
      execFileSync('mkfifo', [join(folder, 'n/fifo')]);
      for (const file of ['n/file', 'file.txt']) writeFileSync(join(folder, file), '');
      process.chdir(folder);
      // Nobody listens there.
      const variables = { HF_ENDPOINT: 'http://127.0.0.1:9' };
      const surroundings = { variables, secrets: new Set<string>(), signal: new AbortController().signal, warn: expect.unreachable } as never;
      for (const [asked, problem] of [
        ['n/fifo', 'n/fifo is a pipe, not the folder of a model'],
        ['n/file', 'n/file is a file, not the folder of a model'],
        ['file.txt/below', 'file.txt/below is not the folder of a model, because file.txt is a file'],
      ] as const) {
        const said = `${problem}. Give a folder, or the id of a model on the hub`;
        expect(checkModel(asked, variables).findings).toMatchObject([{ state: 'missing', text: problem }]);
        await expect(localModel(asked, surroundings)).rejects.toThrow(said);
        await expect(modelHere(asked, variables)).rejects.toThrow(said);
      }
    } finally {
      process.chdir(before);
      rmSync(folder, { recursive: true });
    }
  },
);
