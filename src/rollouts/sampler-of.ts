/** The sampler of an agent's turns for a leased policy. */
import type { ChatLease, PolicyLease, TokenLease } from '../clients/policy-client.ts';
import type { EnvironmentLimits } from '../core/environment.ts';
import type { TurnSampler } from './agent-turns.ts';
import { ChatTurnSampler } from './chat-turn-sampler.ts';
import type { AskedPolicy } from './play-agent.ts';
import { TokenTurnSampler } from './token-turn-sampler.ts';

export function samplerOf(
  { lease, another, capabilities, maxTokens, random }: AskedPolicy,
  { limits, readsThoughts }: { readonly limits: EnvironmentLimits; readonly readsThoughts: boolean },
): TurnSampler {
  const common = { capabilities, limits, maxTokens, readsThoughts, random };
  if (lease.kind === 'chat') return new ChatTurnSampler({ ...common, lease: onceThen(lease, another) as () => Promise<ChatLease> });
  return new TokenTurnSampler({ ...common, lease: onceThen(lease, another) as () => Promise<TokenLease> });
}

/** The rollout's own lease for its first conversation. */
function onceThen(lease: PolicyLease, another: () => Promise<PolicyLease>): () => Promise<PolicyLease> {
  let isTaken = false;
  return async () => {
    if (isTaken) return another();
    isTaken = true;
    return lease;
  };
}
