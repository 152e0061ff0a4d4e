/** The name of an evaluation: recorded, shown, kept and changed by -R, and no setting. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { EvalFolder } from './vf-eval-process.ts';

const ONE = ['capitals', '-n', '1', '--json'];

interface Printed {
  readonly name?: string;
  readonly directory: string;
}

function recorded({ directory }: Printed) {
  return JSON.parse(readFileSync(join(directory, 'metadata.json'), 'utf8')) as { name?: string; config_digest: string };
}

describe('vf-eval --name', { timeout: 60_000 }, () => {
  it('is recorded and shown; -R keeps it, or changes it without another setting', async () => {
    using folder = new EvalFolder();
    const play = async (...words: string[]) => {
      const { code, stdout, stderr } = await folder.run(words);
      expect({ code, stderr }).toMatchObject({ code: 0 });
      return { ...(JSON.parse(stdout) as Printed), stderr };
    };
    const first = await play(...ONE, '--name', 'one passage <b>');
    expect([first.name, recorded(first).name]).toEqual(['one passage <b>', 'one passage <b>']);
    expect(first.stderr).toContain('capitals (one passage <b>): 1 row');
    const digest = recorded(first).config_digest;
    const kept = await play(...ONE, '-R', first.directory);
    expect([kept.name, recorded(kept).name]).toEqual(['one passage <b>', 'one passage <b>']);
    const renamed = await play(...ONE, '--name', 'two', '-R', first.directory);
    expect([renamed.name, recorded(renamed)]).toMatchObject(['two', { name: 'two', config_digest: digest }]);
    // Without a directory, a name chooses among runs that are otherwise alike.
    expect((await play(...ONE, '-R')).directory).toBe(first.directory);
    expect((await play(...ONE, '--name', 'two', '-R')).directory).toBe(first.directory);
    const other = await play(...ONE, '--name', 'three', '-R');
    expect(other.directory).not.toBe(first.directory);
    const text = await folder.run(['capitals', '-n', '1', '-A', '--name', 'two']);
    expect(text.stdout).toMatch(/^name +two$/m);
    expect((await play(...ONE)).name).toBeUndefined();
  });

  it.each(['', 'a\nb', 'a\u202eb', 'x'.repeat(81)])('refuses %j before anything is played', async (name) => {
    using folder = new EvalFolder();
    const { code, stderr } = await folder.run(['capitals', '--name', name]);
    expect({ code, lines: stderr.trimEnd().split('\n').length }).toEqual({ code: 2, lines: 1 });
    expect(stderr).toContain('--name');
    const file = folder.file('runs.toml', `[[eval]]\nenv_id = "capitals"\nname = ${JSON.stringify(name)}\n`);
    expect(await folder.run([file])).toMatchObject({ code: 2, stderr: expect.stringContaining('name in [[eval]] 1 of ') as string });
  });

  it('is that of the file, and in a sweep says what distinguishes the run', async () => {
    using folder = new EvalFolder();
    const file = folder.file(
      'runs.toml',
      'num_examples = 1\n[[eval]]\nenv_id = "capitals"\nname = "base"\n[[ablation]]\nenv_id = "capitals"\nname = "short"\n[ablation.sweep]\nseed = [1, 2]\n',
    );
    const { stdout } = await folder.run([file, '--json']);
    const runs = (JSON.parse(stdout) as { runs: Printed[] }).runs;
    expect(runs.map((run) => [run.name, recorded(run).name])).toEqual(['base', 'short: seed 1', 'short: seed 2'].map((name) => [name, name]));
  });
});
