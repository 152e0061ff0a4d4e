import { appendFileSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { packageRoot } from '../../src/data/package-root.ts';
import { writeAdapter } from '../trainer/publisher/adapter-files.ts';
import { EvalFolder } from './vf-eval-process.ts';

const NANO = join(packageRoot(), 'models/nano-base');

describe('vf-eval -R', () => {
  it('refuses another adapter under the path that the run played, and says that the module of the environment has changed', async () => {
    using folder = new EvalFolder();
    const adapter = join(folder.path, 'latest');
    const config = { base_model_name_or_path: NANO };
    writeAdapter(adapter, { b: 0.01, config });
    const words = ['capitals', '-t', '4', '-p', 'embedded', '-m', adapter, '--plain'];
    expect((await folder.run([...words, '-n', '1'])).code).toBe(0);
    appendFileSync(join(folder.path, 'environments/capitals/environment.mjs'), '\n// corrected\n');
    const again = await folder.run([...words, '-n', '2', '-R']);
    expect(again).toMatchObject({ code: 0, stderr: expect.stringMatching(/^vf-eval: the module of the environment has changed since .* began; /m) });
    writeAdapter(adapter, { b: 0.02, config, seed: 2 });
    const before = [...folder.files()].filter(([name]) => name.endsWith('results.jsonl'));
    const other = await folder.run([...words, '-n', '3', '-R']);
    expect(other).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/cannot be resumed: its adapter has other contents than when the run began\. Restore/),
    });
    expect(before.map(([name]) => readFileSync(join(folder.path, name), 'utf8'))).toEqual(before.map(([, text]) => text));
  });
});
