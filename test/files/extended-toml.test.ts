import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { readExtendedToml } from '../../src/files/extended-toml.ts';

describe('readExtendedToml', () => {
  const folder = mkdtempSync(join(tmpdir(), 'vf-extends-'));
  afterAll(() => rmSync(folder, { recursive: true }));
  const file = (name: string, text: string) => {
    const path = join(folder, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
    return path;
  };

  it('takes what a file leaves out from the one that it extends, and so on', () => {
    file('base.toml', 'steps = 1\nday = 2026-01-01\n[lora]\nrank = 8\nalpha = 16\ntargets = ["q_proj", "k_proj"]\n');
    file('sub/middle.toml', 'extends = "../base.toml"\nname = "m"\n[lora]\nrank = 4\n[optimizer]\nbeta1 = 0.5\n');
    const path = file('top.toml', 'extends = "sub/middle.toml"\nsteps = 3\nday = 2026-02-02\n[lora]\ntargets = ["v_proj"]\n');
    expect(readExtendedToml(path)).toEqual({
      steps: 3,
      name: 'm',
      day: expect.objectContaining({}) as object,
      lora: { rank: 4, alpha: 16, targets: ['v_proj'] },
      optimizer: { beta1: 0.5 },
    });
    expect(JSON.stringify(readExtendedToml(path)['day'])).toBe('"2026-02-02"');
  });

  it('merges lists of tables by their key, and replaces other lists', () => {
    const tables = (...rows: string[]) => rows.map((row) => `[[preset.differences]]\n${row}\n`).join('');
    file('a.toml', tables('key = "x"\nours = "1"', 'key = "y"\nours = "2"'));
    const path = file('b.toml', `extends = "a.toml"\n${tables('key = "z"\nours = "3"', 'key = "x"\nours = "4"')}`);
    expect(readExtendedToml(path)).toEqual({
      preset: {
        differences: [
          { key: 'x', ours: '4' },
          { key: 'y', ours: '2' },
          { key: 'z', ours: '3' },
        ],
      },
    });
    file('c.toml', '[[roles]]\nname = "x"\n');
    expect(readExtendedToml(file('d.toml', 'extends = "c.toml"\n[[roles]]\nname = "y"\n'))).toEqual({ roles: [{ name: 'y' }] });
  });

  it.each([
    ['a circle', 'extends = "sub/../two.toml"', /extends in .*two\.toml leads back to .*one\.toml, which would never end; name another file/],
    [
      'an absolute path',
      'extends = "/etc/other.toml"',
      /must be the path of a \.toml file, relative to the file's own folder, got "\/etc\/other\.toml"$/,
    ],
    ['a file of another kind', 'extends = "secrets.env"', /got "secrets\.env"$/],
    ['a list', 'extends = ["a.toml"]', /got an array$|got a list$/],
    ['a file that is not there', 'extends = "gone.toml"', /Could not read the TOML file .*gone\.toml: there is no such file$/],
  ])('refuses %s in one line', (_, text, message) => {
    file('two.toml', 'extends = "one.toml"');
    expect(() => readExtendedToml(file('one.toml', text))).toThrow(message);
  });
});
