/** What `vf-rounds run` refuses in its tables and files before it trains. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ROUND_COMMANDS } from '../../../src/cli/rounds/run/round-commands.ts';
import { checkRounds } from '../../../src/rounds/driver/check-rounds.ts';
import { readRoundsConfig } from '../../../src/rounds/driver/rounds-config.ts';
import { problemLine } from '../../cli/rounds/run/problem-line.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'vf-check-rounds-'));
  file('rows.jsonl', '{"id": "a"}\n');
});
afterEach(() => rmSync(folder, { recursive: true }));

function file(name: string, text: string): string {
  const path = join(folder, name);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
  return path;
}

async function problemOf(tables: string): Promise<string | null> {
  const rows = join(folder, 'rows.jsonl');
  const path = file(
    'rounds.toml',
    `rows = ${JSON.stringify(rows)}\noutput = ${JSON.stringify(join(folder, 'out'))}\n${tables.replaceAll('FOLDER', folder)}`,
  );
  return problemLine(checkRounds(readRoundsConfig(path), rows, { commands: ROUND_COMMANDS, variables: process.env }), folder);
}

describe('readRoundsConfig', () => {
  it('takes what the file leaves out from the one that it extends', () => {
    file('base.toml', 'environment = "search-r1"\nrows = "base.jsonl"\nrounds = 3\n[phase1]\nflags = ["--lr", "1e-3"]\n');
    const { rows, rounds, environment, phase1, output } = readRoundsConfig(file('own.toml', 'extends = "base.toml"\nrows = "own.jsonl"\n'));
    expect({ rows, rounds, environment, output }).toEqual({ rows: 'own.jsonl', rounds: 3, environment: 'search-r1', output: join(folder, 'own') });
    expect(phase1.flags).toEqual(['--lr', '1e-3']);
  });
});

describe('checkRounds', () => {
  it.each([
    ['neither role nor config', '[vet]', '[vet] of FOLDER/rounds.toml names no model; set role = "vetter=MODEL@URL", or'],
    ['neither role nor config', '[rewrite]', '[rewrite] of FOLDER/rounds.toml names no model; set role = "rewriter=MODEL@URL", or'],
    [
      'a builtin model',
      '[vet]\nrole = "vetter=builtin"',
      'role in [vet] of FOLDER/rounds.toml: No model of the package plays the role vetter. Name a server: role = "vetter=MODEL@URL".',
    ],
    ['the policy', '[vet]\nrole = "vetter=policy"', 'role in [vet] of FOLDER/rounds.toml: A stage of a round has no policy,'],
    [
      'another role',
      '[rewrite]\nrole = "vetter=m@http://127.0.0.1:1/v1"',
      'role in [rewrite] of FOLDER/rounds.toml: role names the role vetter, but this stage asks the role rewriter; give role = "rewriter=MODEL@URL"',
    ],
    [
      'an alias that nobody has',
      '[vet]\nrole = "vetter=nobody-has-it"',
      'role in [vet] of FOLDER/rounds.toml: Role vetter is bound to "nobody-has-it"',
    ],
    ['a file that is missing', '[vet]\nconfig = "FOLDER/roles.toml"', 'config in [vet] of FOLDER/rounds.toml: '],
  ])('refuses %s in a stage that asks a model: %s', async (_, tables, message) => {
    expect(await problemOf(tables)).toContain(message);
  });

  it('refuses a table of roles without the one of the stage, and a key that is not there; takes one that names a server', async () => {
    const table = '[vet]\nconfig = "FOLDER/roles.toml"';
    file('roles.toml', '[roles.rewriter]\nuse = "gpt"\n');
    expect(await problemOf(table)).toContain('config in [vet] of FOLDER/rounds.toml: This stage asks a model, and none is named. Name one, ');
    file('roles.toml', '[roles.vetter]\nmodel = "m"\nbase_url = "http://127.0.0.1:1/v1"\napi_key_var = "VF_NOBODY_SETS_THIS"\n');
    expect(await problemOf(table)).toMatch(/^config in \[vet\] of .* VF_NOBODY_SETS_THIS holds no API key for role vetter/);
    file('roles.toml', '[roles.vetter]\nmodel = "m"\nbase_url = "http://127.0.0.1:1/v1"\n');
    expect(await problemOf(table)).toBeNull();
    expect(await problemOf('[vet]\nrole = "vetter=m@http://127.0.0.1:1/v1"\n[rewrite]\nrole = "rewriter=m@http://127.0.0.1:1/v1"')).toBeNull();
  });

  it('takes a list that the buckets will make, and refuses any other that is missing', async () => {
    const made = 'FOLDER/out/round-1/data/review.jsonl';
    expect(await problemOf(`[review]\nexclude = ["${made}"]`)).toBeNull();
    expect(await problemOf(`[review]\nexclude = ["${made}", "FOLDER/my-revew.jsonl"]`)).toBe(
      `exclude in [review] of FOLDER/rounds.toml cannot be read: FOLDER/my-revew.jsonl does not exist; only ${made}, which the buckets will make, may be missing`,
    );
    expect(await problemOf('[review]\nexclude = []')).toBe(
      `[review] of FOLDER/rounds.toml has no exclude; name at least one list, such as ${made}, which the buckets will make`,
    );
  });

  it('refuses a list that the review could not read, until the review is done', async () => {
    const tables = '[review]\nexclude = ["FOLDER/list.jsonl"]';
    file('list.jsonl', '{"id": "a", "exclude": true}\n');
    expect(await problemOf(tables)).toMatch(
      /^exclude in \[review\] of FOLDER\/rounds\.toml: FOLDER\/list\.jsonl:1: "reason" must say why "a" is left out/,
    );
    file('list.jsonl', '{"id": "a", "reason": "wrong page"}\n');
    expect(await problemOf(tables)).toBeNull();
    rmSync(join(folder, 'list.jsonl'));
    expect(await problemOf(tables)).toContain('does not exist');
    file('out/round-1/data/bucket-0-kept.jsonl', '');
    expect(await problemOf(tables)).toBeNull();
  });
});
