/** The `vf-init` command: writes a new environment that is ready to evaluate with `vf-eval`. */
import { existsSync, mkdirSync, mkdtempSync, realpathSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, relative, resolve } from 'node:path';
import { Command } from 'commander';
import { ConfigError } from '../core/errors.ts';
import { IS_PUBLISHED } from '../core/is-published.ts';
import { packageRoot, packageVersion } from '../data/package-root.ts';
import { bundledEnvironments } from '../registry/find-environment.ts';
import { makeFolder } from '../files/make-folder.ts';
import { type CommandContext, EXIT, runCommand } from './command-line.ts';
import { parseProgram } from './parse-program.ts';
import { environmentFiles } from './environment-template.ts';
import { placeError } from './place-error.ts';
import { ownCommand } from '../reports/text/own-command.ts';
import { shellCommand } from '../reports/text/shell-text.ts';

const HELP = `
Examples:
  vf-init capital-quiz                 writes environments/capital-quiz/
  vf-init capital-quiz --tools         the same task, with a native tool
  vf-init capital-quiz --dir envs      writes envs/capital-quiz/
${IS_PUBLISHED ? '  npx -p vf-search vf-init my-env      without vf-search installed\n' : ''}
The files work as written; change them to make them your own:
  environment.ts        the environment: what a search returns, what ends an
                        episode, what is rewarded
  rows.jsonl            16 questions with their answers
  environment.test.ts   a test that plays an episode step by step
  package.json          the "verifiers" key: id, entry, default size of an
                        evaluation (left out inside the repository of vf-search
                        itself)
  README.md             instructions for users

Then: vf-eval <id>, and vf-eval --help for models, sampling and results.`;

async function main(argv: readonly string[], context: CommandContext): Promise<number> {
  const program = new Command('vf-init')
    .description('Writes a new environment in TypeScript, ready to evaluate.')
    .argument('<id>', 'its name: lower-case words joined by hyphens')
    .option('--tools', 'write a chat environment with a native tool; by default the model writes its searches as <search> tags')
    .option('--dir <folder>', 'folder of the environments', 'environments')
    .version(packageVersion(), '-V, --version')
    .addHelpText('after', HELP);
  const code = parseProgram(program, argv);
  if (code !== null) return code;
  const [id] = program.args as [string];
  const directory = program.opts<{ dir: string }>().dir.replace(/(?<=.)\/+$/, '');
  const names = writeEnvironment(id, directory, program.opts<{ tools?: true }>().tools === true ? 'tools' : 'tags');
  const folder = join(directory, id);
  context.note(`vf-init: wrote ${names.join(', ')} in ${folder}; next:`);
  const isResolvable = canResolvePackage();
  const dirFlag = resolve(directory) === resolve('environments') ? [] : ['--env-dir-path', directory];
  process.stdout.write(`${ownCommand('vf-eval', [id, ...dirFlag])}\n`);
  const test = shellCommand(['npx', 'tsx', '--test', join(folder, 'environment.test.ts')]);
  process.stdout.write(`${isResolvable ? '' : 'npm install vf-search tsx && '}${test}\n`);
  return EXIT.done;
}

/** Writes all files or none and returns their names; never overwrites anything. */
function writeEnvironment(id: string, directory: string, kind: 'tags' | 'tools'): string[] {
  if (!/^[a-z][a-z0-9]*(-[a-z0-9]+)*$/.test(id) || id.length > 64) {
    throw new ConfigError(`The name must be lower-case words joined by hyphens, such as capital-quiz, got ${JSON.stringify(id)}`);
  }
  if (bundledEnvironments().includes(id)) throw new ConfigError(`vf-search itself has an environment ${id}; choose another name`);
  if (directory === '') throw new ConfigError('--dir is empty; name a folder, or leave it out for ./environments');
  const target = resolve(directory, id);
  const taken = [id, id.replaceAll('-', '_')].map((name) => resolve(directory, name)).find((path) => existsSync(path));
  if (taken !== undefined) throw new ConfigError(`${relative('', taken) || taken} already exists; nothing was written, choose another name`);
  if (statSync(directory, { throwIfNoEntry: false })?.isFile()) throw new ConfigError(`--dir must name a folder, but ${directory} is a file`);
  const files = environmentFiles({ id, directory, kind, withManifest: !isInsideClone(directory) });
  const temporary = temporaryIn(directory, id);
  try {
    // Renames an inner folder: the temporary one is readable only by this user and would stay so.
    const unfinished = join(temporary, id);
    mkdirSync(unfinished);
    for (const [name, text] of Object.entries(files)) writeFileSync(join(unfinished, name), text);
    renameSync(unfinished, target);
  } finally {
    rmSync(temporary, { recursive: true, force: true });
  }
  return Object.keys(files);
}

function temporaryIn(directory: string, id: string): string {
  try {
    makeFolder(directory);
    return mkdtempSync(join(directory, `.${id}-`));
  } catch (error) {
    throw placeError(error, { flag: '--dir', path: directory });
  }
}

/** True in the repository of vf-search: its environments resolve the package through the package.json above them. */
function isInsideClone(directory: string): boolean {
  for (let folder = resolve(directory); ; folder = resolve(folder, '..')) {
    const manifest = join(folder, 'package.json');
    if (existsSync(manifest)) return realpathSync(folder) === realpathSync(packageRoot());
    if (folder === resolve(folder, '..')) return false;
  }
}

function canResolvePackage(): boolean {
  try {
    createRequire(join(process.cwd(), 'any.js')).resolve('vf-search/package.json');
    return true;
  } catch {
    // Not installed here: the printed commands install it.
    return false;
  }
}

await runCommand('vf-init', main);
