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

  it('rests a replica whose account is out of credit while another one lives; the last one ends the run', () => {
    const { choice: chosen, servers, rested } = choice();
    for (const status of [402, 429]) {
      const spent = new PolicyError('The credit or quota of the API key is used up', { status, endsRun: true });
      expect(chosen.isBetterElsewhere(servers[1], spent)).toBe(true);
      expect(chosen.after(servers[1], spent, new Set([servers[1]]))).toBe(servers[0]);
      expect(rested).toEqual(['http://b']);
    }
    const last = new PolicyError('The credit or quota of the API key is used up', { status: 402, endsRun: true });
    expect([chosen.after(servers[0], last, new Set([servers[0]])), rested]).toEqual([null, ['http://b']]);
    const refused = new PolicyError('The server rejected the API key', { status: 401, endsRun: true });
    expect(choice().choice.after(servers[1], refused, new Set())).toBeNull();
  });

  it('rests none that never had the version: it was restarted since, and serves the current one', () => {
    const { choice: chosen, servers, rested, replicas } = choice();
    replicas.place('v4', ['http://a']);
    replicas.place('v5', ['http://a', 'http://b']);
    expect(chosen.after(servers[1], gone, new Set([servers[1]]))).toBe(servers[0]);
    expect([rested, replicas.serves('http://b', 'v5')]).toEqual([[], true]);
  });
});
