/**
 * A long proof in stages. Each stage reads the files of the stages before, works in a folder of its own, where it goes on after a kill, and ends with a record.
 * A stage with a record is not run again; one whose settings or inputs have changed since is refused, because hours of work would be thrown away silently.
 */
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { readRegularFileSync } from '../../src/files/regular-file.ts';

export interface Stage {
  /** Name of its folder and of its record, NAME.json. */
  readonly name: string;
  /** Stages whose results it reads. */
  readonly needs: readonly string[];
  /** Plain JSON: everything else that its result depends on. */
  readonly settings: unknown;
  /** `folder` may hold the files of an earlier attempt. The result is plain JSON. */
  run(folder: string): Promise<unknown>;
}

interface StageRecord {
  readonly settings: unknown;
  /** SHA-256 of the records of the stages that it needs. */
  readonly inputs: Readonly<Record<string, string>>;
  /** Duration of the last session. */
  readonly seconds: number;
  readonly finished_at: string;
  readonly result: unknown;
}

export interface StagesOptions {
  /** Folder of all stages. */
  readonly output: string;
  /** Runs only these, in their order; the stages that they need must have been run. @default all */
  readonly only?: readonly string[];
  readonly say: (line: string) => void;
}

/** Runs the stages that have no record yet, in order. */
export async function runStages(stages: readonly Stage[], { output, only, say }: StagesOptions): Promise<void> {
  const unknown = only?.filter((name) => !stages.some((stage) => stage.name === name)) ?? [];
  if (unknown.length > 0) throw new Error(`Unknown stage: ${unknown.join(', ')}. The stages are ${stages.map(({ name }) => name).join(', ')}.`);
  mkdirSync(output, { recursive: true });
  for (const stage of stages) {
    if (only !== undefined && !only.includes(stage.name)) continue;
    const inputs = Object.fromEntries(stage.needs.map((name) => [name, sha256(readText(output, name))]));
    if (existsSync(recordPath(output, stage.name))) {
      assertSame(output, stage, inputs);
      say(`${stage.name}: done before`);
      continue;
    }
    say(`\n${stage.name}`);
    const folder = join(output, stage.name);
    mkdirSync(folder, { recursive: true });
    const startedAtMs = performance.now();
    const result = await stage.run(folder);
    const seconds = Math.round((performance.now() - startedAtMs) / 1000);
    write(output, stage.name, { settings: stage.settings, inputs, seconds, finished_at: new Date().toISOString(), result });
    say(`${stage.name}: ${seconds} s`);
  }
}

/** The result of a stage that has been run. */
export function readResult(output: string, name: string): unknown {
  return (JSON.parse(readText(output, name)) as StageRecord).result;
}

function assertSame(output: string, { name, settings }: Stage, inputs: Readonly<Record<string, string>>): void {
  const before = JSON.parse(readText(output, name)) as StageRecord;
  const remedy = `Delete ${recordPath(output, name)} and the folder next to it to run the stage again, or name another --output.`;
  const [was, is] = [JSON.stringify(before.settings), JSON.stringify(settings)];
  if (was !== is) throw new Error(`The stage ${name} was run with ${was}, but its settings are ${is} now. ${remedy}`);
  const changed = Object.keys(inputs).find((input) => before.inputs[input] !== inputs[input]);
  if (changed !== undefined) throw new Error(`The stage ${changed} was run again after ${name}, which reads it. ${remedy}`);
}

function write(output: string, name: string, record: StageRecord): void {
  const path = recordPath(output, name);
  writeFileSync(`${path}.tmp`, `${JSON.stringify(record, null, 2)}\n`);
  renameSync(`${path}.tmp`, path);
}

function readText(output: string, name: string): string {
  const path = recordPath(output, name);
  if (!existsSync(path)) throw new Error(`The stage ${name} has not been run: there is no ${path}. Run it first, or all stages without --only.`);
  return readRegularFileSync(path);
}

function recordPath(output: string, name: string): string {
  return join(output, `${name}.json`);
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
