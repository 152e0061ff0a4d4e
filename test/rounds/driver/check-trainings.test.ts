/** What `vf-rounds run` refuses in flags, settings and arguments of its trainings before the first one. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ROUND_COMMANDS } from '../../../src/cli/rounds/run/round-commands.ts';
import { checkTrainings } from '../../../src/rounds/driver/check-trainings.ts';
import { readRoundsConfig } from '../../../src/rounds/driver/rounds-config.ts';
import { problemLine } from '../../cli/rounds/run/problem-line.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'vf-check-trainings-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

function file(name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

async function problemOf(tables: string): Promise<string | null> {
  const top = `rows = "page-world"\noutput = ${JSON.stringify(join(folder, 'out'))}\nflags = ["--preset", "laptop", "--steps", "6"]\n`;
  const path = file('rounds.toml', top + tables.replaceAll('FOLDER', folder));
  return problemLine(checkTrainings(readRoundsConfig(path), { commands: ROUND_COMMANDS, variables: process.env, secrets: new Set() }), folder);
}

describe('checkTrainings', () => {
  it('takes settings and arguments that hold, with supervised rows that do not exist yet', async () => {
    const sft = '[sft]\narguments = { phase = 2 }\nflags = ["--set", "sft.epochs=3", "--set", "sft.held_out=4"]';
    expect(await problemOf(`arguments = { pages = "page-world" }\n[focused]\narguments = { max_turns = 3 }\n${sft}`)).toBeNull();
  });

  it.each([
    ['a key that does not exist', '"--set", "sft.epochz=2"', 'Unknown key sft.epochz (--set)'],
    ['a number that is none', '"--set", "sft.learning_rate=abc"', 'sft.learning_rate'],
    ['half a row', '"--set", "sft.held_out=1.5"', 'a whole number of rows, got 1.5'],
    ['rows for the validation that are missing', '"--set", "sft.validation=FOLDER/none.jsonl"', 'The file FOLDER/none.jsonl does not exist'],
    ['own rows that cannot be read', '"--sft", "FOLDER/own.jsonl"', 'FOLDER/own.jsonl:1 is not a supervised row'],
  ])('refuses in the supervised steps %s', async (_, flags, message) => {
    file('own.jsonl', '{"id": 1}\n');
    const problem = await problemOf(`[sft]\nflags = [${flags}]`);
    expect(problem).toMatch(/^The training \[sft\] of FOLDER\/rounds\.toml: /);
    expect(problem).toContain(message);
  });

  it.each(['phase1', 'focused', 'sft'])('refuses arguments of [%s] that the environment does not take', async (table) => {
    const place = `The arguments of the training [${table}] of FOLDER/rounds.toml: `;
    expect(await problemOf(`[${table}]\narguments = { max_turnz = 3 }`)).toContain(`${place}visual-rag has no argument "max_turnz"`);
    expect(await problemOf(`[${table}]\narguments = { on_judge_failure = "zero" }`)).toContain(`${place}on_judge_failure "zero"`);
    const evaluated = `[${table}]\nflags = ["--set", "environment.eval_args={max_turns = 1}"]`;
    expect(await problemOf(evaluated)).toContain(`${place}max_turns must be`);
  });

  it.each([
    ['phase1', '"--role", "judg=M@http://h/v1"', 'The environment has no role judg (did you mean judge?). Its roles are generator, judge.'],
    ['focused', '"--set", "roles.judge.sampling.top_p=0.5"', 'roles.judge.sampling cannot be used here'],
  ])('refuses in [%s] a role that the environment does not have, and one that cannot be played so', async (table, flags, message) => {
    expect(await problemOf(`[${table}]\nflags = [${flags}]`)).toContain(`The roles of the training [${table}] of FOLDER/rounds.toml: ${message}`);
  });
});
