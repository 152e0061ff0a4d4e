/** vf-eval with native tools and with a group of environments: what it shows before the first rollout and after the last. */
import { describe, expect, it } from 'vitest';
import { EvalFolder } from './vf-eval-process.ts';

const NOTES = `
import { Dataset, defineTool, EnvGroup, reward, Rubric, ToolEnv } from 'vf-search';

const tools = [
  defineTool({ name: 'convert', description: 'Converts a length.', parameters: { type: 'object', properties: { value: { type: 'number' } }, required: ['value'] }, execute: () => 1 }),
  defineTool({
    name: 'find_note',
    description: 'Finds a note.',
    parameters: { type: 'object', properties: { query: { type: 'string' } }, required: ['query'] },
    execute: () => 'Doc 1(Title: "France") Paris is the capital of France.',
  }),
];
function notes(id, value) {
  const row = (i) => ({ exampleId: i, prompt: [{ role: 'user', content: 'What is the capital of France?' }] });
  const rubric = new Rubric({ funcs: [reward(() => value, { name: 'right' })] });
  return new ToolEnv({ id, eval: new Dataset(id, [0, 1, 2].map(row)), rubric, tools, calls: 'native', maxTurns: 4, limits: { responseTokens: 60 }, provenance: id === 'b' ? { rows: 'own' } : {} });
}
`;

function groupFolder(): EvalFolder {
  const folder = new EvalFolder();
  folder.file('environments/notes/environment.mjs', `${NOTES}export const loadEnvironment = () => notes('a', 1);`);
  folder.file(
    'environments/mixed/environment.mjs',
    `${NOTES}export const loadEnvironment = () => new EnvGroup({ id: 'mixed', environments: { first: notes('a', 1), second: notes('b', 0.5) } });`,
  );
  return folder;
}

describe.concurrent('vf-eval', () => {
  it('lists native tools below the first prompt of a dry run, and no provenance that says nothing', async () => {
    using folder = groupFolder();
    const { code, stdout } = await folder.run(['mixed', '--dry-run']);
    expect(code).toBe(0);
    expect(stdout).toMatch(
      /What is the capital of France\?\n\nNative tools \(sent with their schemas .*\)\n {2}convert: Converts a length\.\n {2}find_note: /,
    );
    expect(stdout).not.toMatch(/^first/m);
    expect(stdout).toMatch(/^second +\{"rows":"own"\}$/m);
  });

  it('says that the template of an embedded model writes the tools', async () => {
    using folder = groupFolder();
    const { stdout } = await folder.run(['notes', '--dry-run', '-p', 'embedded']);
    expect(stdout).toContain("Native tools (the model's chat template adds them with their schemas to the prompt");
  });

  it('names the task of a group that -n leaves out, and shows the reward of each task that is played', async () => {
    using folder = groupFolder();
    const few = await folder.run(['mixed', '-n', '1']);
    expect(few.stderr).toMatch(/^The first 1 of 6 rows contain none of second \(1 of 2 tasks\).* add --shuffle .* at least -n 2$/m);
    const both = await folder.run(['mixed', '-n', '2']);
    expect(both.stderr).not.toContain('rows contain none of');
    expect(both.stdout).toMatch(/^ {2}first +1\.000 [^]*^ {2}second +0\.500/m);
    const all = await folder.run(['mixed', '-n', '6']);
    expect(all.stderr).not.toContain('rows contain none of');
    expect(all.stdout).toMatch(/^reward +0\.750 [^]*^ {2}first +1\.000 [^]*^ {4}find_note_calls +1\.000\n[^]*^ {2}second +0\.500/m);
  });
});
