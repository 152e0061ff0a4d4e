/** Follows the manifests of stages back to the origin of the data, checks every file, and reports the number of rows that each stage left. */
import { readdir, stat } from 'node:fs/promises';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { ifThere } from '../files/if-there.ts';
import { runNameIn } from '../files/run-name-in.ts';
import { ConfigError } from '../core/errors.ts';
import type { WireRoundManifest } from '../schemas/round-manifest.ts';
import { manifestOf, nearPath, readManifest, readOwnManifest, sha256Of } from './stage-files.ts';
import { isFilledIn } from './stage.ts';

export interface FunnelStage {
  /** Path of the manifest. */
  readonly path: string;
  readonly stage: string;
  /** Names of the runs that it is about: of the training that it is, and of those whose traces it read. */
  readonly runs: readonly string[];
  readonly rule: Readonly<Record<string, unknown>>;
  readonly counts: Readonly<Record<string, number>>;
  readonly outputs: readonly { readonly path: string; readonly rows: number }[];
}

export interface Table {
  readonly head: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

/**
 * The stages that made the named files, and all stages before them, the earliest first. `named`: folders, manifests or outputs. Throws ConfigError for a broken
 * chain.
 */
export async function readFunnel(named: readonly string[]): Promise<FunnelStage[]> {
  const chain = new Chain();
  for (const path of named) for (const manifest of await manifestsAt(path)) await chain.follow(manifest);
  return chain.stages;
}

class Chain {
  readonly stages: FunnelStage[] = [];
  readonly #seen = new Set<string>();
  readonly #hashes = new Map<string, string>();

  async follow(path: string): Promise<void> {
    const key = resolve(path);
    if (this.#seen.has(key)) return;
    this.#seen.add(key);
    const manifest = (await readManifest(path))!;
    const { stage, complete, rule, counts, inputs, outputs } = manifest;
    if (!complete) throw new ConfigError(`The chain is broken: ${path} is the manifest of an interrupted ${stage}; run ${stage} again`);
    for (const { role, path: input, sha256 } of inputs) {
      const file = nearPath(join(dirname(path), input));
      await this.#check(file, sha256, `${stage} read it as ${role}`, `run ${stage} again`);
      const parent = await manifestOf(file);
      if (parent !== null) await this.follow(parent.path);
    }
    for (const { path: output, sha256 } of outputs) {
      if (isFilledIn(stage, output)) continue;
      await this.#check(nearPath(join(dirname(path), output)), sha256, `${stage} wrote it`, `run ${stage} again, or restore the file`);
    }
    const runs = await namesOf([path, ...inputs.filter(({ role }) => role === 'trace').map(({ path: input }) => join(dirname(path), input))]);
    this.stages.push({
      path,
      stage,
      runs,
      rule,
      counts,
      outputs: outputs.map(({ path: file, rows }) => ({ path: join(dirname(path), file), rows })),
    });
  }

  async #check(file: string, sha256: string, since: string, remedy: string): Promise<void> {
    const found = this.#hashes.get(resolve(file)) ?? (await sha256Of(file, remedy));
    this.#hashes.set(resolve(file), found);
    if (found !== sha256)
      throw new ConfigError(
        `The chain is broken: ${file} has changed since ${since} (SHA-256 ${sha256.slice(0, 12)}… then, ${found.slice(0, 12)}… now); ${remedy}`,
      );
  }
}

/** The names of the runs in whose folders the files are, each once. */
export async function namesOf(files: readonly string[]): Promise<readonly string[]> {
  const names = await Promise.all(files.map((file) => runNameIn(dirname(file))));
  return [...new Set(names.filter((name) => name !== null))];
}

async function manifestsAt(path: string): Promise<string[]> {
  const about = await ifThere(path, (place) => stat(place));
  if (about === null) throw new ConfigError(`${path} does not exist; name a folder of stages, a manifest, or what a stage wrote`);
  if (about.isDirectory()) {
    const manifests: string[] = [];
    const names = (await ifThere(path, (folder) => readdir(folder, { recursive: true }))) ?? [];
    for (const name of names.filter((each) => each.endsWith('.manifest.json')).toSorted())
      if ((await readOwnManifest(join(path, name))) !== null) manifests.push(join(path, name));
    if (manifests.length === 0)
      throw new ConfigError(`${path} has no *.manifest.json of a stage; name the folder into which stages of vf-rounds wrote`);
    return manifests;
  }
  if (path.endsWith('.manifest.json')) return [path];
  const found = await manifestOf(path);
  if (found === null) throw new ConfigError(`No manifest next to ${path} names the stage that wrote it; name a file that vf-rounds wrote`);
  return [found.path];
}

/** The funnel's table: stage, rows that it read, rows that it wrote, runs if some have names, rule and folder. */
export function funnelTable(stages: readonly FunnelStage[], cwd: string): Table {
  const hasNames = stages.some(({ runs }) => runs.length > 0);
  const rows = stages.map(({ stage, path, counts, outputs, rule, runs }) => [
    stage,
    counts['rows'] === undefined ? String(counts['prompts'] ?? counts['rollouts'] ?? '') : String(counts['rows']),
    outputs
      .filter(({ path: file }) => file.endsWith('.jsonl'))
      .map((output) => `${output.rows} ${nameOf(output.path)}`)
      .join(', ') || '-',
    ...(hasNames ? [runs.join(', ')] : []),
    `${ruleText(rule)}${ruleText(rule) === '' ? '' : ' '}(${relative(cwd, dirname(path)) || '.'})`,
  ]);
  return { head: ['stage', 'in', 'out', ...(hasNames ? ['run'] : []), 'rule'], rows };
}

function nameOf(file: string): string {
  return basename(file).replace(/\.jsonl$/, '');
}

function ruleText(rule: WireRoundManifest['rule']): string {
  return Object.entries(rule)
    .filter(([, value]) => value !== null && value !== '')
    .map(([key, value]) => `${key} ${Array.isArray(value) ? value.join(' + ') : typeof value === 'string' ? value : JSON.stringify(value)}`)
    .join(', ');
}
