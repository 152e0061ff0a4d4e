/**
 * Checks that a release can be made, and rehearses it; with --publish it makes it: both npm packages, then the tag. docs/releasing.md says what to do before.
 *
 *   node scripts/release.mjs             checks, `npm publish --dry-run`; changes nothing but dist/, which it builds anew
 *   node scripts/release.mjs --publish   checks, publishes what is not on the registry yet, tags
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';

const ROOT = join(import.meta.dirname, '..');
const PACKAGES = ['packages/vf-search-models', '.'];
const { publish } = parseArgs({ options: { publish: { type: 'boolean', default: false } } }).values;

const read = (path) => readFileSync(join(ROOT, path), 'utf8');
const { version, peerDependencies } = JSON.parse(read('package.json'));
const tag = `v${version}`;

const problems = [
  ...versionProblems(),
  read('CHANGELOG.md').includes(`## ${version}\n`) ? null : `CHANGELOG.md has no section "## ${version}"`,
  read('src/core/is-published.ts').includes('IS_PUBLISHED = true') ? null : 'IS_PUBLISHED in src/core/is-published.ts is false',
  git('status', '--porcelain') === '' ? null : 'the working tree is not clean',
  git('rev-parse', '--abbrev-ref', 'HEAD') === 'main' ? null : 'the branch is not main',
  git('tag', '--list', tag) === '' ? null : `the tag ${tag} exists`,
].filter((problem) => problem !== null);
for (const problem of problems) say(`${problem}.`);
if (publish && problems.length > 0) process.exit(1);

const provenance = process.env.GITHUB_ACTIONS === 'true' ? ['--provenance'] : [];
if (publish && provenance.length === 0) say('outside GitHub Actions, so without provenance.');
// Otherwise files of earlier builds, which no source has any more, would be published too.
rmSync(join(ROOT, 'dist'), { recursive: true, force: true });
for (const folder of PACKAGES) publishPackage(folder);
if (publish) {
  git('tag', '--annotate', tag, '--message', tag);
  git('push', 'origin', tag);
}
say(publish ? `published ${version}.` : `rehearsed ${version}; nothing was published.`);
process.exitCode = problems.length > 0 ? 1 : 0;

function versionProblems() {
  const others = [
    ['packages/vf-search-models/package.json', JSON.parse(read('packages/vf-search-models/package.json')).version],
    ['peerDependencies of package.json', peerDependencies['vf-search-models']],
    ['python/pyproject.toml', /^version = "(.*)"$/m.exec(read('python/pyproject.toml'))?.[1]],
  ];
  return others.map(([place, other]) => (other === version ? null : `${place} has version ${other}, package.json ${version}`));
}

function publishPackage(folder) {
  const { name } = JSON.parse(read(join(folder, 'package.json')));
  const isThere = publish && spawnSync('npm', ['view', `${name}@${version}`, 'version'], { cwd: ROOT, encoding: 'utf8' }).stdout.trim() === version;
  if (isThere) {
    say(`${name} ${version} is on the registry already.`);
    return;
  }
  const flags = publish ? ['--access', 'public', ...provenance] : ['--dry-run'];
  execFileSync('npm', ['publish', ...flags], { cwd: join(ROOT, folder), stdio: 'inherit' });
}

function git(...words) {
  return execFileSync('git', words, { cwd: ROOT, encoding: 'utf8' }).trim();
}

function say(text) {
  process.stderr.write(`release: ${text}\n`);
}
