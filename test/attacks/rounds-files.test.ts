/** `vf-rounds run` with a configuration that is hostile in itself, or that names hostile files. */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ROUND_COMMANDS } from '../../src/cli/rounds/run/round-commands.ts';
import { runRounds } from '../../src/rounds/driver/run-rounds.ts';
import { ConfigError } from '../../src/core/errors.ts';
import { CommandHost } from '../cli/command-host.ts';
import { quietContext } from '../cli/rounds/quiet-context.ts';

const folder = mkdtempSync(join(tmpdir(), 'vf-attacked-rounds-'));
const host = new CommandHost();
afterAll(async () => {
  await host[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true });
});
const at = (name: string) => join(folder, name);
const rows = `rows = "${at('rows.jsonl')}"\n`;
const output = `output = "${at('out')}"\n`;
const GOOD = rows + output;
const context = { ...quietContext(), commands: ROUND_COMMANDS, variables: process.env, onStart: () => {}, onPlayed: () => {} };

beforeAll(() => {
  writeFileSync(at('rows.jsonl'), '{"id": "p0"}\n');
  for (const name of ['pipe.toml', 'pipe.jsonl']) spawnSync('mkfifo', [at(name)]);
  symlinkSync('/dev/zero', at('endless.toml'));
  symlinkSync('/dev/zero', at('endless.jsonl'));
  mkdirSync(at('adapter'));
  spawnSync('mkfifo', [at('adapter/adapter_model.safetensors')]);
});

describe('vf-rounds run', () => {
  it.each<[string, string, RegExp]>([
    ['lists that are nested without end', `${GOOD}flags = ${'['.repeat(200_000)}${']'.repeat(200_000)}`, /is not valid TOML: .*nested/],
    ['tables that are nested without end', `${GOOD}[arguments]\n${'a.'.repeat(20_000)}a = 1`, /nested more than 64 levels deep/],
    ['a path of 20 MB', `rows = "${'x'.repeat(20_000_000)}"`, /^rows in .* must be at most 4096 characters/],
    [
      'more flags than a command line takes',
      `${GOOD}flags = [${'"-v",'.repeat(200_000)}]`,
      /flags in .* have \d+ characters; a command takes at most/,
    ],
    ['a larger object than a command line takes', `${GOOD}arguments = { a = "${'x'.repeat(200_000)}" }`, /arguments in .* have \d+ characters/],
    ['an environment that is a flag', `${GOOD}environment = "--help"`, /environment in .* without a dash before it, got "--help"/],
    ['a date for a table', `${GOOD}phase1 = 1979-05-27`, /phase1 in .* must be a table/],
    ['a number for a path', 'rows = 7', /rows in .* must be text, got 7/],
    ['an array of tables for a table', `${GOOD}[[sft]]\nfrom = "start"`, /sft in .* must be a table/],
    ['flags that are not text', `${GOOD}flags = [1]`, /flags in .* must be a list of texts/],
    ['a number of rounds beyond all numbers', `${GOOD}rounds = inf`, /rounds in .* must be a whole number of at least 1/],
    ['a key of every object', `${GOOD}[__proto__]\na = 1`, /Unknown key "__proto__"/],
    ['a zero byte in a path', `${rows}output = "a\\u0000b"`, /output in .* without a zero byte/],
    ['an output that is a file', `${rows}output = "${at('rows.jsonl')}"`, /output in .* cannot be used: .*rows\.jsonl is not a folder/],
    ['an output in a device', `${rows}output = "/dev/null/x"`, /output in .* cannot be used/],
    ['rows that are a pipe', `${output}rows = "${at('pipe.jsonl')}"`, /rows in .* cannot be read: .*pipe\.jsonl is a pipe/],
    ['rows without end', `${output}rows = "${at('endless.jsonl')}"`, /rows in .* cannot be read: .*endless\.jsonl is a device/],
    ['a list of exclusions that is a pipe', `${GOOD}[review]\nexclude = ["${at('pipe.jsonl')}"]`, /exclude in \[review\] of .* is a pipe/],
    ['an adapter that is a pipe', `${GOOD}adapter = "${at('adapter')}"`, /adapter in .* cannot be read: .* is a pipe/],
    ['an adapter that is nowhere', `${GOOD}adapter = "nowhere"`, /adapter in .* cannot be read: nowhere.* does not exist/],
    ['NaN as a bound', `${GOOD}[bucket]\nlow = nan`, /\[bucket\] of .*low.* a number from 0 to 1/],
    ['a threshold beyond all bounds', `${GOOD}[focus]\nthreshold = 1e300`, /\[focus\] of .*threshold/],
    ['a value that would be another flag', `${GOOD}[extract]\ntop = "--output"`, /\[extract\] of /],
  ])('refuses %s in one line and makes nothing', async (_, text, message) => {
    writeFileSync(at('rounds.toml'), text);
    const error = await runRounds(at('rounds.toml'), { allowChanges: false, dryRun: false }, context).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(ConfigError);
    expect((error as Error).message).toMatch(message);
    expect((error as Error).message).not.toContain('\n');
    expect((error as Error).message.length).toBeLessThan(1000);
    expect(existsSync(at('out'))).toBe(false);
  });

  it.each([
    ['pipe.toml', /^vf-rounds: .*pipe\.toml is a pipe/],
    ['endless.toml', /^vf-rounds: .*endless\.toml is a device/],
    ['deep.toml', /^vf-rounds: .*nested more than 64 levels deep/],
  ])('ends with 2 for the configuration %s', async (name, message) => {
    writeFileSync(at('deep.toml'), `${GOOD}[arguments]\n${'a.'.repeat(20_000)}a = 1`);
    const { code, stderr } = await host.run('vf-rounds', ['run', at(name)], { cwd: folder, env: {} });
    expect(code).toBe(2);
    expect(stderr).toMatch(message);
    expect(stderr.trimEnd()).not.toContain('\n');
  });

  it('says what the trainings of a good configuration lack, before it makes anything', async () => {
    writeFileSync(at('good.toml'), GOOD);
    const { code, stderr } = await host.run('vf-rounds', ['run', at('good.toml')], { cwd: folder, env: {} });
    expect(code).toBe(2);
    expect(stderr).toMatch(/^vf-rounds: The training \[phase1\] of \S*good\.toml: No model is named; set model\.path/);
    expect(existsSync(at('out'))).toBe(false);
  });
});
