/** The policy as `AgentPolicy` shows it to an agent, over its session and, once it is asked for an address, over the gateway. */
import type { AgentGateway, GatewayAddress } from '../agents/agent-gateway.ts';
import type { AgentRefusal } from '../agents/agent-refusal.ts';
import { ResponseStore } from '../agents/dialects/response-store.ts';
import { languageModelOf } from '../agents/language-model.ts';
import type { AgentPolicy } from '../core/environment.ts';
import { ConfigError } from '../core/errors.ts';
import type { AgentSession } from './agent-session.ts';

export interface PolicyOfRollout extends Disposable {
  readonly policy: AgentPolicy;
  /** The agent was given an address of it. */
  readonly hasAddress: boolean;
}

/** @param gateway null where no server can run. Its addresses are closed when the result is disposed. */
export function policyOfRollout(
  session: AgentSession,
  { name, gateway }: { readonly name: string; readonly gateway: AgentGateway | null },
): PolicyOfRollout {
  const addresses: GatewayAddress[] = [];
  const responses = new ResponseStore();
  const policies = new Map<string | null, AgentPolicy>();
  const refused = (refusal: AgentRefusal) => session.requests.refused(refusal);
  const inRole = (role: string | null): AgentPolicy => {
    const known = policies.get(role);
    if (known !== undefined) return known;
    let address: GatewayAddress | null = null;
    const opened = () => {
      if (gateway === null) throw new ConfigError('The policy has no address here, because no server runs. Ask it with policy.languageModel().');
      if (address !== null) return address;
      address = gateway.add({
        model: name,
        responses,
        ask: (request, signal) => session.ask(request, signal, role),
        count: (request, signal) => session.count(request, signal),
        refused,
      });
      addresses.push(address);
      return address;
    };
    const policy: AgentPolicy = {
      name,
      languageModel: () => languageModelOf(name, (request, signal) => session.ask(request, signal, role), refused),
      get baseURL() {
        return opened().baseURL;
      },
      get apiKey() {
        return opened().apiKey;
      },
      as: inRole,
    };
    policies.set(role, policy);
    return policy;
  };
  return {
    policy: inRole(null),
    get hasAddress() {
      return addresses.length > 0;
    },
    [Symbol.dispose]() {
      for (const address of addresses) address.close();
    },
  };
}

/** The policy of an environment that asks models of its own. */
export function noPolicyFor(id: string): AgentPolicy {
  const refuse = (): never => {
    throw new ConfigError(`${id} names models of its own (models), so it cannot ask the policy. Leave models out of its options.`);
  };
  return {
    name: 'none',
    languageModel: refuse,
    get baseURL() {
      return refuse();
    },
    get apiKey() {
      return refuse();
    },
    as: refuse,
  };
}
