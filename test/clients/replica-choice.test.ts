import { describe, expect, it } from 'vitest';
import { PolicyReplicas } from '../../src/clients/policy-replicas.ts';
import { ReplicaChoice } from '../../src/clients/replica-choice.ts';
import type { VllmServer } from '../../src/clients/vllm-server.ts';
import { PolicyError } from '../../src/core/errors.ts';

const server = (url: string) => ({ url, isResting: false, leases: 0, failedMsAgo: Infinity }) as VllmServer;
const gone = new PolicyError('The model v4 does not exist', { status: 404, endsRun: true });

function choice() {
  const replicas = new PolicyReplicas();
  const rested: string[] = [];
  replicas.supervise((replica) => rested.push(replica));
  const servers = [server('http://a'), server('http://b')] as const;
  return { replicas, rested, servers, choice: new ReplicaChoice({ servers, replicas, model: 'v4' }) };
}

describe('ReplicaChoice.after', () => {
  it('rests a replica that has lost a version which it had', () => {
    const { choice: chosen, servers, rested, replicas } = choice();
    replicas.place('v4', ['http://a', 'http://b']);
    expect(chosen.after(servers[1], gone, new Set([servers[1]]))).toBe(servers[0]);
    expect(rested).toEqual(['http://b']);
  });

  it('rests none that never had the version: it was restarted since, and serves the current one', () => {
    const { choice: chosen, servers, rested, replicas } = choice();
    replicas.place('v4', ['http://a']);
    replicas.place('v5', ['http://a', 'http://b']);
    expect(chosen.after(servers[1], gone, new Set([servers[1]]))).toBe(servers[0]);
    expect([rested, replicas.serves('http://b', 'v5')]).toEqual([[], true]);
  });
});
