import { spawnSync } from 'node:child_process';
import { lstatSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { IDENTIFIER_MAPPING, IdentifierRenamer } from '../../../environments/self-play-code/rename-identifiers/mapping.ts';

const ROOT = join(import.meta.dirname, '../../..');
const renamer = new IdentifierRenamer();

describe('IdentifierRenamer', () => {
  it.each([
    ...Object.entries(IDENTIFIER_MAPPING),
    ['from absolute_zero_reasoner.trainer.ppo import azr_ray_trainer', 'from rewarded_self_play.trainer.ppo import crsp_ray_trainer'],
    ['# Absolute Zero Reasoner (AZR)', '# Cognition via Rewarded Self-Play (CRSP)'],
    ['class AZRTrainer(RayAZR): runAzr(azr2, _azr)', 'class CRSPTrainer(RayCRSP): runCrsp(crsp2, _crsp)'],
    ['ABSOLUTE_ZERO_REASONER Absolute_Zero_Reasoner', 'REWARDED_SELF_PLAY Rewarded_Self_Play'],
    ['ABSOLUTE ZERO REASONER. Absolute zero reasoner', 'COGNITION VIA REWARDED SELF-PLAY. Cognition via Rewarded Self-Play'],
    ['azr.seed=1 ++azr.x', 'crsp.seed=1 ++crsp.x'],
  ])('turns %j into %j', (text, expected) => {
    expect(renamer.rename(text).text).toBe(expected);
    expect(renamer.remaining(expected)).toBeNull();
  });

  it.each(['hazrat', 'azrael', 'BAZR', 'aZr', 'AbsoluteZeroReasoner', 'Absolute-Zero-Reasoner', 'absolute zero reasoners'])(
    'leaves %j as it is, and says that it remains',
    (text) => {
      expect(renamer.rename(text)).toEqual({ text, count: 0 });
      expect(renamer.remaining(`x ${text} y`)).not.toBeNull();
    },
  );

  it('takes the longest of names that begin alike', () => {
    const nested = new IdentifierRenamer({ a_b: 'short', a_b_c: 'long' });
    expect(nested.rename('a_b_c a_b').text).toBe('long short');
  });

  it('changes nothing in text that it has already renamed', () => {
    const words = fc.constantFrom(...Object.keys(IDENTIFIER_MAPPING), 'Azr', 'x', '_', ' ', '\n', 'A', '漢');
    fc.assert(
      fc.property(fc.array(words), (parts) => {
        const once = renamer.rename(parts.join('')).text;
        expect(renamer.rename(once)).toEqual({ text: once, count: 0 });
      }),
    );
  });
});

describe('rename-identifiers', () => {
  let scratch: string;
  let folder: string;
  beforeEach(() => {
    scratch = mkdtempSync(join(tmpdir(), 'vf-rename-'));
    folder = join(scratch, 'project');
    for (const name of ['project', 'outside']) mkdirSync(join(scratch, name));
    writeFileSync(join(scratch, 'outside/azr.py'), 'azr');
  });
  afterEach(() => rmSync(scratch, { recursive: true }));

  const at = (path: string) => join(folder, path);
  function write(path: string, contents: string | Uint8Array): void {
    mkdirSync(dirname(at(path)), { recursive: true });
    writeFileSync(at(path), contents);
  }
  const names = () =>
    readdirSync(folder, { recursive: true, encoding: 'utf8' })
      .filter((path) => !path.startsWith('.git'))
      .toSorted();
  const git = (...args: string[]) => spawnSync('git', ['-C', folder, '-c', 'user.name=x', '-c', 'user.email=x@x', ...args], { encoding: 'utf8' });

  function run(...args: string[]) {
    const script = ['--no-warnings', join(ROOT, 'environments/self-play-code/rename-identifiers/rename-identifiers.ts')];
    const { status, stdout, stderr } = spawnSync(process.execPath, [...script, ...args], { encoding: 'utf8' });
    return { status, stdout, stderr };
  }

  const BINARY = Uint8Array.of(0x89, 0x61, 0x7a, 0x72, 0x00, 0xff);

  function writeTree(): void {
    write('absolute_zero_reasoner/trainer/azr_ray_trainer.py', 'import absolute_zero_reasoner\r\nclass AZR: pass\r\n');
    write('absolute_zero_reasoner/__init__.py', '');
    write('configs/azr_ppo_trainer.yaml', 'azr:\n  seed: 1\n');
    write('README.md', '# Absolute Zero Reasoner\nhttps://github.com/LeapLabTHU/Absolute-Zero-Reasoner\n');
    write('assets/azr.png', BINARY);
    write('.git/azr', 'azr');
    write('run.sh', '#!/bin/sh\npython -m absolute_zero_reasoner.main azr.seed=2\n');
    spawnSync('chmod', ['755', at('run.sh')]);
    mkdirSync(at('elsewhere'));
    symlinkSync('../configs/azr_ppo_trainer.yaml', at('elsewhere/link.yaml'));
    symlinkSync(join(scratch, 'outside'), at('outside'));
  }

  const RENAMED = [
    'README.md',
    'assets',
    'assets/crsp.png',
    'configs',
    'configs/crsp_ppo_trainer.yaml',
    'elsewhere',
    'elsewhere/link.yaml',
    'outside',
    'outside/azr.py',
    'rewarded_self_play',
    'rewarded_self_play/__init__.py',
    'rewarded_self_play/trainer',
    'rewarded_self_play/trainer/crsp_ray_trainer.py',
    'run.sh',
  ];

  it('renames contents, files and folders, leaves binary files, links and .git alone, and reports what stays', () => {
    writeTree();
    const { status, stdout, stderr } = run(folder);
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    expect(names()).toEqual(RENAMED);
    expect(readFileSync(at('rewarded_self_play/trainer/crsp_ray_trainer.py'), 'utf8')).toBe('import rewarded_self_play\r\nclass CRSP: pass\r\n');
    expect(readFileSync(at('configs/crsp_ppo_trainer.yaml'), 'utf8')).toBe('crsp:\n  seed: 1\n');
    expect(readFileSync(at('run.sh'), 'utf8')).toContain('python -m rewarded_self_play.main crsp.seed=2');
    expect(statSync(at('run.sh')).mode & 0o777).toBe(0o755);
    expect(Uint8Array.from(readFileSync(at('assets/crsp.png')))).toEqual(BINARY);
    for (const untouched of ['.git/azr', 'outside/azr.py']) expect(readFileSync(at(untouched), 'utf8')).toBe('azr');
    expect(lstatSync(at('elsewhere/link.yaml')).isSymbolicLink()).toBe(true);
    expect(readlinkSync(at('elsewhere/link.yaml'))).toBe('../configs/azr_ppo_trainer.yaml');
    expect(stdout).toContain('left    README.md:2  https://github.com/LeapLabTHU/Absolute-Zero-Reasoner\n');
    expect(stdout).toContain('left    elsewhere/link.yaml  a link to ../configs/azr_ppo_trainer.yaml\n');
    expect(stdout).toContain('binary  assets/azr.png\n');
    expect(stdout).toMatch(/^6 names in 4 files and 4 paths were renamed; 2 old names stay, 1 binary files keep their contents$/m);

    expect(run(folder).stdout).toMatch(/^0 names in 0 files and 0 paths were renamed/m);
    expect(names()).toEqual(RENAMED);
  });

  it('says with --dry-run what it would do, and changes nothing', () => {
    writeTree();
    const before = names();
    const { status, stdout } = run(folder, '--dry-run');
    expect(status).toBe(0);
    expect(stdout).toContain('change  absolute_zero_reasoner/trainer/azr_ray_trainer.py (2)\n');
    expect(stdout).toContain('rename  absolute_zero_reasoner → rewarded_self_play\n');
    expect(stdout).toMatch(/^6 names in 4 files and 4 paths would be renamed; 2 old names stay/m);
    expect(names()).toEqual(before);
    expect(readFileSync(at('configs/azr_ppo_trainer.yaml'), 'utf8')).toBe('azr:\n  seed: 1\n');
  });

  it('refuses a tree of git with changes that are not committed, unless it is forced to', () => {
    git('init', '-q');
    write('azr.py', 'azr = 1\n');
    const refused = run(folder);
    expect([refused.status, refused.stdout]).toEqual([2, '']);
    expect(refused.stderr).toMatch(/has changes that are not committed.*use --force\n$/);
    expect(names()).toEqual(['azr.py']);
    expect(run(folder, '--dry-run').status).toBe(0);
    git('add', '-A');
    git('commit', '-qm', 'x');
    expect(run(folder).status).toBe(0);
    expect(names()).toEqual(['crsp.py']);
    write('more_azr.py', '');
    expect(run(folder, '--force').status).toBe(0);
    expect(names()).toEqual(['crsp.py', 'more_crsp.py']);
  });

  it('refuses this repository and what is in it, even if it is forced to, also through a link', () => {
    symlinkSync(join(ROOT, 'docs'), at('link'));
    for (const ours of [ROOT, join(ROOT, 'scripts'), at('link')]) {
      const { status, stderr } = run(ours, '--force', '--dry-run');
      expect([status, stderr]).toEqual([2, expect.stringContaining('belongs to vf-search, whose names stay') as string]);
    }
  });

  it('changes nothing where two paths would get one name', () => {
    write('azr/a.py', 'azr');
    write('crsp/a.py', 'azr');
    const { status, stderr } = run(folder);
    expect([status, stderr]).toEqual([2, 'rename-identifiers: azr and crsp would both be named crsp. Rename one of them first\n']);
    expect(readFileSync(at('crsp/a.py'), 'utf8')).toBe('azr');
  });

  it.each([
    [[], 'usage: '],
    [['none'], 'none is not a folder'],
    [['a', 'b'], 'usage: '],
    [['.', '--dryrun'], "Unknown option '--dryrun'"],
  ])('refuses the arguments %j in one line', (args, message) => {
    const { status, stdout, stderr } = run(...args);
    expect({ status, stdout, lines: stderr.split('\n').length }).toEqual({ status: 2, stdout: '', lines: 2 });
    expect(stderr).toContain(message);
  });
});
