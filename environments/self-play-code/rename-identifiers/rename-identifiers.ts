/**
 * Renames the identifiers of Absolute Zero Reasoner in a copy of its repository to those of Cognition via Rewarded Self-Play: in text files, in the names of files and
 * folders. Prints what it does and which old names stay. Exit code 0 done, 2 refused; nothing is changed if it is refused.
 *
 *   node environments/self-play-code/rename-identifiers/rename-identifiers.ts FOLDER --dry-run
 *   node environments/self-play-code/rename-identifiers/rename-identifiers.ts FOLDER
 *   node environments/self-play-code/rename-identifiers/rename-identifiers.ts FOLDER --force     if git has changes that are not committed
 *
 * It refuses this repository. Links are not followed, binary files keep their contents. A second run changes nothing.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, realpathSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { IdentifierRenamer } from './mapping.ts';
import { planRenames, type RenamePlan, renameText } from './plan-renames.ts';

const USAGE = 'usage: node environments/self-play-code/rename-identifiers/rename-identifiers.ts FOLDER [--dry-run] [--force]';
const MOST_SHOWN = 40;

function main(argv: readonly string[]): number {
  let folder: string;
  let flags: { readonly 'dry-run'?: boolean; readonly force?: boolean };
  try {
    const { positionals, values } = parseArgs({
      args: [...argv],
      allowPositionals: true,
      options: { 'dry-run': { type: 'boolean' }, force: { type: 'boolean' } },
    });
    if (positionals.length !== 1) return refuse(USAGE);
    [folder, flags] = [resolve(positionals[0]!), values];
  } catch (error) {
    return refuse(`${(error as Error).message}; ${USAGE}`);
  }
  if (!statSync(folder, { throwIfNoEntry: false })?.isDirectory()) return refuse(`${folder} is not a folder`);
  // The one link that is followed: the folder that the user named.
  folder = realpathSync(folder);
  const { 'dry-run': isDry = false, force = false } = flags;
  const objection = objectionTo(folder, isDry || force);
  if (objection !== null) return refuse(objection);
  const plan = planRenames(folder, new IdentifierRenamer());
  if (plan.problem !== null) return refuse(plan.problem);
  if (!isDry) carryOut(folder, plan);
  process.stdout.write(`${report(plan, isDry).join('\n')}\n`);
  return 0;
}

function refuse(reason: string): number {
  process.stderr.write(`rename-identifiers: ${reason}\n`);
  return 2;
}

/** The reason why the folder is not touched; null if it may be. */
function objectionTo(folder: string, mayBeDirty: boolean): string | null {
  if (isOurs(folder)) return `${folder} belongs to vf-search, whose names stay. Name a copy of another project`;
  if (mayBeDirty) return null;
  // No hook of the repository runs.
  const { status, stdout } = spawnSync('git', ['-C', folder, '-c', 'core.fsmonitor=false', 'status', '--porcelain'], { encoding: 'utf8' });
  if (status !== 0 || stdout === '') return null;
  return `${folder} has changes that are not committed, so git could not undo the renames alone. Commit them, or use --force`;
}

function isOurs(folder: string): boolean {
  for (let at = folder; ; at = dirname(at)) {
    const manifest = join(at, 'package.json');
    if (existsSync(manifest) && /"name":\s*"vf-search"/.test(readFileSync(manifest, 'utf8'))) return true;
    if (at === dirname(at)) return false;
  }
}

function carryOut(folder: string, { changes, renames }: RenamePlan): void {
  for (const { path, text } of changes) writeFileSync(join(folder, path), text);
  for (const { from, to } of renames) renameSync(join(folder, from), join(folder, to));
}

function report({ changes, renames, leftovers, binary }: RenamePlan, isDry: boolean): string[] {
  const places = changes.reduce((sum, { count }) => sum + count, 0);
  const verb = isDry ? 'would be' : 'were';
  return [
    ...shown(
      'change',
      changes.map(({ path, count }) => `${path} (${count})`),
    ),
    ...shown('rename', renames.map(renameText)),
    ...shown('binary', binary),
    ...shown(
      'left',
      leftovers.map(({ place, text }) => `${place}  ${text}`),
    ),
    `${places} names in ${changes.length} files and ${renames.length} paths ${verb} renamed; ${leftovers.length} old names stay, ${binary.length} binary files keep their contents`,
  ];
}

function shown(label: string, lines: readonly string[]): string[] {
  const more = lines.length > MOST_SHOWN ? [`${label.padEnd(8)}... and ${lines.length - MOST_SHOWN} more`] : [];
  return [...lines.slice(0, MOST_SHOWN).map((line) => `${label.padEnd(8)}${printable(line)}`), ...more];
}

/** A file from outside may hold control characters, on which a terminal would act. */
function printable(line: string): string {
  return line.replaceAll(/\p{C}/gu, '?');
}

process.exitCode = main(process.argv.slice(2));
