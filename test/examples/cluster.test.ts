import { spawn, spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { EXIT } from '../../src/cli/command-line.ts';

const ROOT = join(import.meta.dirname, '../..');
const CLUSTER = join(ROOT, 'examples/cluster');
const folder = mkdtempSync(join(tmpdir(), 'vf-cluster-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** Each call of this vf-train takes the next of the words in `plan`: an exit code, `step-N` for N after a further step, or `hang`. */
const VF_TRAIN = `#!/usr/bin/env bash
plan=$(dirname "$0")/plan
read -r next rest <"$plan"; sed -i 's/^[^ ]* *//' "$plan"
echo "$*" >>"$(dirname "$0")/calls"
run=$(dirname "$0")/runs/train/run
mkdir -p "$run/checkpoints"; touch "$run/config.toml" "$run/metrics.jsonl"
case $next in
  hang) trap 'exit 143' TERM; touch "$(dirname "$0")/hangs"; while :; do sleep 0.01; done ;;
  step-*) echo '{}' >>"$run/metrics.jsonl"; next=\${next#step-} ;;
esac
if [ "$next" = kill ]; then kill -9 $$; fi
exit "$next"
`;

/** A machine whose vf-train ends as the plan says. */
function machine(plan: string) {
  const path = mkdtempSync(join(folder, 'machine-'));
  writeFileSync(join(path, 'vf-train'), VF_TRAIN);
  chmodSync(join(path, 'vf-train'), 0o755);
  writeFileSync(join(path, 'plan'), plan);
  const command = [join(CLUSTER, 'train-until-done.sh'), join(path, 'runs'), 'run.toml', '--steps', '3'] as const;
  const env = { ...process.env, PATH: `${path}:${process.env['PATH']}`, VF_PAUSE_S: '0' };
  const calls = (name = 'calls') => readFileSync(join(path, name), 'utf8').trimEnd().split('\n');
  return { path, command, env, calls, again: `-R ${join(path, 'runs/train/run')}`, first: `run.toml --steps 3 --output-dir ${join(path, 'runs')}` };
}

const run = (plan: string) => {
  const at = machine(plan);
  const { status } = spawnSync(at.command[0], at.command.slice(1), { env: at.env, encoding: 'utf8' });
  return { ...at, status };
};

describe('examples/cluster', () => {
  it('holds scripts that bash can read', () => {
    const scripts = readdirSync(CLUSTER).filter((name) => !name.endsWith('.yaml'));
    expect(scripts).toEqual(expect.arrayContaining(['copy-run.sh', 'train-until-done.sh', 'train.sbatch']));
    for (const name of scripts) expect(spawnSync('bash', ['-n', join(CLUSTER, name)], { encoding: 'utf8' }).stderr).toBe('');
  });

  it('has a Job that fails at once for the exit codes that would come again, and tries again for all others', () => {
    const job = parse(readFileSync(join(CLUSTER, 'job.yaml'), 'utf8')) as {
      spec: {
        podFailurePolicy: { rules: { action: string; onExitCodes?: { values: number[]; containerName: string } }[] };
        template: { spec: object };
      };
    };
    const [fails] = job.spec.podFailurePolicy.rules;
    expect(fails).toMatchObject({
      action: 'FailJob',
      onExitCodes: { operator: 'In', values: [EXIT.usage, EXIT.costReached], containerName: 'train' },
    });
    expect(job.spec.template.spec).toMatchObject({ restartPolicy: 'Never', hostname: 'vf-train', containers: [{ name: 'train' }] });
  });

  it('documents every exit code of the commands', () => {
    const page = readFileSync(join(ROOT, 'docs/clusters.md'), 'utf8');
    const codes = [...page.matchAll(/^\| (\d+) \|/gm)].map(([, code]) => Number(code));
    expect(new Set(codes)).toEqual(new Set([...Object.values(EXIT), 137]));
  });
});

describe('train.sbatch', () => {
  it('removes the lock of a lost node, and asks SLURM to queue the job again after it was told to stop', async () => {
    const { path, env, calls } = machine('hang 0');
    const directory = join(path, 'outputs/job-7/train/run');
    mkdirSync(directory, { recursive: true });
    writeFileSync(join(directory, 'config.toml'), '');
    writeFileSync(join(directory, '.lock~lost-node~12~34'), '');
    mkdirSync(join(path, 'node_modules/.bin'), { recursive: true });
    symlinkSync(ROOT, join(path, 'node_modules/vf-search'));
    writeFileSync(join(path, 'scontrol'), '#!/bin/sh\necho "$*" >>"$(dirname "$0")/scontrol-calls"\n', { mode: 0o755 });
    const job = { ...env, SLURM_SUBMIT_DIR: path, SLURM_JOB_ID: '7' };
    const child = spawn('bash', [join(CLUSTER, 'train.sbatch')], { env: job, stdio: 'ignore' });
    const ended = new Promise((done) => child.on('exit', done));
    await expect.poll(() => readdirSync(path).includes('hangs'), { timeout: 60_000 }).toBe(true);
    expect(readdirSync(directory)).not.toContain('.lock~lost-node~12~34');
    child.kill('SIGTERM');
    expect(await ended).toBe(EXIT.terminated);
    expect(calls('scontrol-calls')).toEqual(['requeue 7']);
    expect(calls()).toEqual(['-R outputs/job-7/train/run']);
  });
});

describe('train-until-done.sh', () => {
  it('starts the run once, continues it after a failure and a kill, and ends when it has finished', () => {
    const { status, calls, first, again } = run('1 kill 0');
    expect(status).toBe(0);
    expect(calls()).toEqual([first, again, again]);
  });

  it.each([EXIT.usage, EXIT.costReached])('ends at once with %i, which would come again', (code) => {
    const { status, calls } = run(`step-1 ${code} 0`);
    expect([status, calls().length]).toEqual([code, 2]);
  });

  it('gives up after three tries in a row that took no step, and not while steps are taken', () => {
    const stuck = run('step-1 1 1 1 0');
    expect([stuck.status, stuck.calls().length]).toEqual([1, 4]);
    const slow = run('step-1 1 1 step-1 1 1 step-1 0');
    expect([slow.status, slow.calls().length]).toEqual([0, 8]);
  });

  it('passes SIGTERM on, waits for the run to end and starts no other', async () => {
    const { path, command, env, calls } = machine('hang 0');
    mkdirSync(join(path, 'runs'));
    const child = spawn(command[0], command.slice(1), { env, stdio: 'ignore' });
    const ended = new Promise((done) => child.on('exit', done));
    await expect.poll(() => readdirSync(path).includes('hangs'), { timeout: 60_000 }).toBe(true);
    child.kill('SIGTERM');
    expect(await ended).toBe(EXIT.terminated);
    expect(calls()).toHaveLength(1);
  });
});
