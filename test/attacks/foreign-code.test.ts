/** Which commands may run the code that a path names: a module that says when it is imported, in every place where a command meets one. */
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CommandHost } from '../cli/command-host.ts';
import { TemporaryFolder } from '../cli/eval/temporary-folder.ts';
import { writeTraining } from '../viewing/written-runs.ts';

const folder = new TemporaryFolder();
const host = new CommandHost();
afterAll(async () => {
  await host[Symbol.asyncDispose]();
  folder[Symbol.dispose]();
});
const at = (...names: string[]) => join(folder.path, ...names);
const RAN = at('RAN');
/** An environment, a rubric, a server of a pipeline, a loss and a credit. */
const CANARY = `import { writeFileSync } from 'node:fs';
writeFileSync(${JSON.stringify(RAN)}, '');
throw new Error('the canary ran');
`;
writeFileSync(at('canary.ts'), CANARY);
mkdirSync(at('environments', 'canary'), { recursive: true });
writeFileSync(at('environments', 'canary', 'environment.ts'), CANARY);
// What would run if a package of this folder were loaded.
for (const name of ['vf-search', 'typescript']) {
  mkdirSync(at('node_modules', name), { recursive: true });
  writeFileSync(at('node_modules', name, 'package.json'), JSON.stringify({ name, version: '9.9.9', type: 'module', exports: './index.js' }));
  writeFileSync(at('node_modules', name, 'index.js'), CANARY);
}
for (const name of ['vitest.config.ts', '.pnp.cjs', 'environments/index.ts']) writeFileSync(at(name), CANARY);
const CONFIG = `steps = 1
[environment]
id = ${JSON.stringify(at('canary.ts'))}
[model]
path = ${JSON.stringify(at('model'))}
`;
writeFileSync(at('config.toml'), CONFIG);
writeFileSync(at('rounds.toml'), `environment = ${JSON.stringify(at('canary.ts'))}\n`);
writeTraining(at('runs/train/t'));
writeFileSync(at('runs/train/t/config.toml'), CONFIG);
for (const name of ['chat_template.jinja', 'modeling_canary.py', 'tokenization_canary.py']) {
  mkdirSync(at('model'), { recursive: true });
  writeFileSync(at('model', name), `open(${JSON.stringify(RAN)}, 'w')\n`);
}
writeFileSync(
  at('model/config.json'),
  JSON.stringify({ model_type: 'canary', auto_map: { AutoModelForCausalLM: 'modeling_canary.Canary', AutoTokenizer: 'tokenization_canary.Canary' } }),
);
writeFileSync(at('corpus.jsonl'), '{"id":"1","contents":"a b"}\n');
writeFileSync(
  at('p.yaml'),
  `servers: {benchmark: , mine: canary.ts, other: {command: sh, args: [-c, "touch '${RAN}'; exec cat"]}}\npipeline: [benchmark.get_data, mine.x, other.y]\n`,
);

/** Stands for the folders of two evaluations, of an environment that is the canary once they are played. */
const [ONE, TWO] = ['EVALUATION-ONE', 'EVALUATION-TWO'];
const played = new Map<string, string>();
beforeAll(async () => {
  await using player = new CommandHost();
  const run = (command: string, ...words: string[]) => player.run(command, words, { cwd: folder.path, env: {} });
  await run('vf-init', 'other', '--dir', 'environments');
  for (const name of [ONE, TWO]) {
    const { stdout } = await run('vf-eval', 'other', '-n', '1', '-o', at('runs'), '--json', '--seed', String(played.size));
    played.set(name, (JSON.parse(stdout) as { directory: string }).directory);
  }
  writeFileSync(at('environments/other/environment.ts'), CANARY);
}, 60_000);
const TRAINING = at('runs/train/t');
type Form = readonly [command: string, ...words: string[]];
/** These read what a run, a model or a pipeline says, and load no code that it names. */
const NEVER: readonly Form[] = [
  ['vf-view', at('runs'), '--export', at('page.html')],
  ['vf-compare', ONE, TWO],
  ['vf-compare', ONE, TWO, '--json'],
  ['vf-export', ONE, '-o', at('out.jsonl')],
  ['vf-export', TRAINING, '--step', '1', '-o', at('out.jsonl')],
  ['vf-index', at('corpus.jsonl'), '-o', at('index')],
  ['vf-index', at('canary.ts'), '-o', at('index2')],
  ['vf-init', 'other', '--dir', at('environments')],
  ['vf-init', 'canary', '--dir', at('environments')],
  ['vf-pipeline', 'check', at('p.yaml')],
  ['vf-pipeline', 'build', at('p.yaml')],
  ['vf-doctor'],
  ['vf-eval', '--help'],
  ['vf-eval', at('canary.ts'), '--help'],
  ['vf-eval', 'canary', '--help'],
  ['vf-train', at('canary.ts'), '--help'],
  ['vf-train', at('config.toml'), '--help'],
  ['vf-train', '--list-presets'],
  ['vf-score', ONE, '--help'],
  ['vf-seed', at('canary.ts'), '--help'],
  ['vf-serve', 'environment', at('canary.ts'), '--help'],
  ['vf', 'completion', 'bash'],
  ['vf', 'completion', 'zsh'],
  ['vf', 'completion', 'fish'],
  ['vf', 'eval', at('canary.ts'), '--help'],
  ['vf-rounds', 'report', at('runs/train/t')],
];
/** These play, train or score, or check what they would do: the documentation says so. */
const MAY: readonly Form[] = [
  ['vf-eval', at('canary.ts'), '-n', '1', '-o', at('o')],
  ['vf-eval', at('canary.ts'), '--dry-run', '-o', at('o')],
  ['vf-eval', 'canary', '--dry-run', '-o', at('o')],
  ['vf-train', at('config.toml'), '-o', at('o')],
  ['vf-train', at('config.toml'), '--dry-run', '-o', at('o')],
  ['vf-serve', 'environment', at('canary.ts'), '--port', '0'],
  ['vf-doctor', at('config.toml')],
  ['vf-doctor', at('config.toml'), '--memory'],
  ['vf-pipeline', 'check', at('p.yaml'), '--start-servers'],
];
/** The environment of that name in the user's own folder, never one that only the run names. */
const PLAYED: readonly Form[] = [
  ['vf-eval', 'other', '-R', ONE],
  ['vf-score', ONE, '--in-place'],
];
const shown = ([command, ...words]: Form) => [command, words.map((word) => word.replaceAll(`${folder.path}/`, '')).join(' ')] as const;

/** A process imports a module once. */
function withOwnCopies([command, ...words]: Form, i: number): Form {
  const own = `own${i}-`;
  const copied = (name: string) => name.replace(/(?=canary\.ts$|config\.toml$|p\.yaml$)/, own);
  for (const name of ['canary.ts', 'config.toml', 'p.yaml'])
    writeFileSync(at(copied(name)), readFileSync(at(name), 'utf8').replaceAll(/(?=canary\.ts)/g, own));
  return [command, ...words.map(copied)];
}

async function ran([command, ...words]: Form, process = host): Promise<boolean> {
  rmSync(RAN, { force: true });
  const given = words.map((word) => played.get(word) ?? word);
  await process.run(command, given, { cwd: folder.path, env: {} });
  return existsSync(RAN);
}

describe('code that a path names', () => {
  it.each(NEVER.map((form) => [...shown(form), form] as const))('is not run by %s %s', async (_, __, form) => {
    expect(await ran(form)).toBe(false);
  });

  it.each(MAY.map((form, i) => [...shown(form), withOwnCopies(form, i)] as const))('is run by %s %s', async (_, __, form) => {
    expect(await ran(form)).toBe(true);
  });

  it.each(PLAYED.map((form) => [...shown(form), form] as const))('of the environment that a run names is run by %s %s', async (_, __, form) => {
    await using fresh = new CommandHost();
    expect(await ran(form, fresh)).toBe(true);
  });
});
