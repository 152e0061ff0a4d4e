import { appendFileSync, readFileSync, writeFileSync } from 'node:fs';
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
      stderr: expect.stringMatching(
        /must have the inputs that it began with, but model names other contents than before: adapter_model\.safetensors changed\. Restore the files, add --allow-changes/,
      ),
    });
    expect(before.map(([name]) => readFileSync(join(folder.path, name), 'utf8'))).toEqual(before.map(([, text]) => text));
  });

  it('refuses another corpus, goes on with it where that is allowed, and then has nothing against it', async () => {
    using folder = new EvalFolder();
    const corpus = (text: string) => writeFileSync(join(folder.path, 'corpus.jsonl'), `{"id": "1", "contents": "Paris\\n${text}"}\n`);
    corpus('The capital of France.');
    const words = ['search-r1', '-a', '{"corpus": "corpus.jsonl"}', '-p', 'baseline', '--plain'];
    const play = (rows: number, ...more: string[]) => folder.run([...words, '-n', `${rows}`, ...more]);
    expect((await play(1)).code).toBe(0);
    corpus('A city in Texas.');
    expect(await play(2, '-R')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining(
        'env_args.corpus names other contents than before: corpus.jsonl changed. Restore the files, add --allow-changes to continue',
      ),
    });
    expect(await play(2, '-R', '--allow-changes')).toMatchObject({
      code: 0,
      stderr: expect.stringContaining('; its rollouts on file keep the scores'),
    });
    expect((await play(3, '-R')).code).toBe(0);
    expect(await play(3, '--allow-changes')).toMatchObject({ code: 2, stderr: expect.stringContaining('--allow-changes needs -R') });
  });
});
