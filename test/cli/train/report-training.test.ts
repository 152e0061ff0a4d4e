/** The end of a real run, as a person reads it. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { loopback, sendJson } from '../../transport/loopback.ts';
import { runInProcess } from '../in-process.ts';
import { TemporaryFolder } from '../eval/temporary-folder.ts';

it('shows commands for what comes next without the credentials of the run', { timeout: 60_000 }, async () => {
  using folder = new TemporaryFolder();
  await using retrieval = await loopback((_, response) => sendJson(response, 200, { result: [[]] }));
  const retriever = retrieval.url.replace('http://', 'http://reader:pass-Word-1@');
  const small = ['--steps', '1', '-n', '2', '-r', '2', '--set', 'evaluation.every=0', '--set', 'policy.embedded.threads=1', '-o', folder.path];
  const args = ['search-r1', '--preset', 'laptop', ...small, '-a', JSON.stringify({ retriever_url: `${retriever}/retrieve` })];
  const said = await runInProcess('vf-train', args, { cwd: process.cwd(), env: { PATH: '/nonexistent' } });
  expect(said).toMatchObject({ code: 0, stderr: expect.any(String) });
  expect(said.stdout.match(/npx vf-(eval|train)/g)).toEqual(['npx vf-eval', 'npx vf-train', 'npx vf-train']);
  expect(said.stdout.match(/"retriever_url":"[^"]*"/g)).toHaveLength(1);
  expect(said.stdout + said.stderr).not.toContain('pass-Word-1');
  const [run] = readdirSync(join(folder.path, 'train'));
  const ofAdapter = (file: string) => readFileSync(join(folder.path, 'train', run!, 'checkpoints/step-000001/adapter', file), 'utf8');
  expect(ofAdapter('config.toml')).toContain('retriever_url = "URL"');
  expect(ofAdapter('config.toml') + ofAdapter('README.md')).not.toContain('pass-Word-1');
});
