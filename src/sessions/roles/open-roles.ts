/** Opens the models of resolved roles: checks that servers answer, and that the policy can chat if it plays a role. */
import type { PolicyCapabilities, PolicyClient } from '../../clients/policy-client.ts';
import { Disposers } from '../../core/disposers.ts';
import { ConfigError } from '../../core/errors.ts';
import type { ImageStore } from '../../core/message.ts';
import type { Model } from '../../core/model.ts';
import { samplingFields } from '../../core/sampling.ts';
import type { RoleRequest } from '../../models/asked-with.ts';
import { chatProblem, clientModel } from '../../models/client-model.ts';
import { type OpenedRoleModels, openRoleModels, ROLE_DEFAULTS, type RoleBinding } from '../../models/role-models.ts';
import type { RoleTable } from '../../schemas/roles-config.ts';
import { hideSecrets, redactUrl, secretRedactor } from '../../transport/redact.ts';
import type { OpenedPolicy } from '../policy/open-policy.ts';
import { countText, plural } from '../../reports/text/number-text.ts';
import { type ReadSampling, samplingFor } from '../policy/sampling.ts';
import { PROPERTY_NAMES, ROLE_FLAG, type SettingNames } from '../setting-names.ts';
import { askRoleServer } from './ask-role-server.ts';
import type { ResolvedRole, RoleEndpoint } from './resolve-roles.ts';
import { openChatApi } from '../../registry/open-chat-api.ts';

type RoleNames = Pick<SettingNames, 'role'>;

/** The run's own policy, which may also play roles. */
export interface RolePolicy {
  readonly name: string;
  readonly client: () => PolicyClient;
  readonly capabilities: PolicyCapabilities;
  /** The reason why it cannot play a role. @default its capabilities decide */
  readonly refusal?: (role: string, names: RoleNames) => string;
}

/** The policy of a vf-eval run. */
export function rolePolicyOf({ client, kind }: Pick<OpenedPolicy, 'client' | 'kind'>): RolePolicy {
  const refusal = REFUSALS[kind];
  return {
    name: client.name,
    client: () => client,
    capabilities: client.capabilities,
    ...(refusal !== undefined && { refusal: (role: string, names: RoleNames) => refusal(role, client.name, names) }),
  };
}

type Refusal = (role: string, policy: string, names: RoleNames) => string;

const REFUSALS: Readonly<Partial<Record<OpenedPolicy['kind'], Refusal>>> = {
  baseline: (role, policy, names) =>
    cannotPlay(policy, role, 'a built-in baseline plays this environment by fixed rules and answers nothing else', names),
  program: (role, _, names) =>
    `The environment asks no policy, so role ${role} cannot be bound to it. Name a server: ${names.role(role, 'MODEL@URL')}.`,
};

function cannotPlay(policy: string, role: string, problem: string, names: RoleNames): string {
  return `The policy ${policy} cannot play role ${role}: ${problem}. Bind the role to another model: ${names.role(role, 'MODEL@URL')}.`;
}

export interface OpenRolesOptions {
  readonly policy: RolePolicy;
  /** The environment's images, for messages to a server. @default none */
  readonly images?: ImageStore | undefined;
  readonly onNotice: (line: string) => void;
  /** Values that must not be written to a file. */
  readonly secrets: ReadonlySet<string>;
  /** The caller's names for a role's model, for errors. @default as on the command line */
  readonly names?: RoleNames;
  /** Ends the run if the server of a role does not say whether a stop string ended its text. @default false: the text is kept */
  readonly strictStops?: boolean;
  readonly signal: AbortSignal;
}

export interface OpenedRoles extends AsyncDisposable {
  readonly models: OpenedRoleModels;
  /** By role, a line with its model and its limits, without credentials. */
  readonly descriptions: ReadonlyMap<string, string>;
  /** By role, the name of its model. */
  readonly players: Readonly<Record<string, string>>;
  /** By role, the name of its model and, as JSON, what the user's settings ask it with. It is part of the run's identity, which a resume compares. */
  readonly identities: Readonly<Record<string, string>>;
  /** Notices for the user before the run. */
  readonly notices: readonly string[];
}

export async function openRoles(roles: readonly ResolvedRole[], options: OpenRolesOptions): Promise<OpenedRoles> {
  await using opened = new Disposers();
  const bindings: Record<string, RoleBinding> = {};
  const descriptions = new Map<string, string>();
  const identities: Record<string, string> = {};
  const notices: string[] = [];
  for (const resolved of roles) {
    const { binding, who, notice } = await bind(resolved, options, opened);
    bindings[resolved.role] = { ...binding, ...requestOf(resolved.asked) };
    identities[resolved.role] = [binding.model.name, ...askedText(resolved.asked)].join(' ');
    descriptions.set(resolved.role, [who, ...limitsText(resolved)].join(', '));
    if (notice !== null) notices.push(notice);
  }
  const models = opened.use(await openRoleModels(bindings, { onNotice: options.onNotice, redact: secretRedactor([...options.secrets]) }));
  const disposer = opened.move();
  return {
    models,
    descriptions,
    players: Object.fromEntries(Object.entries(bindings).map(([role, { model }]) => [role, model.name])),
    identities,
    notices,
    [Symbol.asyncDispose]: () => disposer.disposeAsync(),
  };
}

interface Bound {
  readonly binding: RoleBinding;
  readonly who: string;
  readonly notice: string | null;
}

async function bind(resolved: ResolvedRole, options: OpenRolesOptions, opened: Disposers): Promise<Bound> {
  const { policy, names = ROLE_FLAG } = options;
  const { role, player, table } = resolved;
  const limits = limitsOf(table);
  switch (player.kind) {
    case 'builtin':
      // A client of the AI SDK's models has a deadline of its own, which leaves out waits for a rate limit.
      return {
        binding: { model: player.model, ...(player.model.isRemote && { timeoutMs: Infinity }), ...limits },
        who: ownModelText(player.model),
        notice: null,
      };
    case 'policy': {
      if (policy.refusal !== undefined) throw new ConfigError(policy.refusal(role, names));
      const problem = chatProblem(policy.capabilities);
      if (problem !== null) throw new ConfigError(cannotPlay(policy.name, role, problem, names));
      if (resolved.asked !== null) samplingFor(resolved.asked, policy.capabilities, { ...PROPERTY_NAMES, name: () => `sampling of roles.${role}` });
      return {
        // The policy's client has a deadline of its own, which leaves out waits for a rate limit.
        binding: { model: clientModel(policy.client, { name: policy.name, isPolicy: true }), timeoutMs: Infinity, ...limits },
        who: `${policy.name} (the policy itself)`,
        notice: null,
      };
    }
    default:
      return bindEndpoint(role, player, table, { ...options, names, opened });
  }
}

async function bindEndpoint(
  role: string,
  endpoint: RoleEndpoint,
  table: RoleTable,
  {
    images,
    onNotice,
    names,
    strictStops = false,
    signal,
    opened,
  }: Omit<OpenRolesOptions, 'names'> & { readonly names: RoleNames; readonly opened: Disposers },
): Promise<Bound> {
  const { baseUrls, apiKey, keyVariable, headers, stream = 'auto' } = endpoint;
  const { model, notice } = await askRoleServer(role, endpoint, signal, names);
  const limits = limitsOf(table);
  const client = await openChatApi({
    baseUrls,
    model,
    headers,
    apiKey,
    keyVariable,
    images,
    stream,
    strictStops,
    onRemark: (remark) => onNotice(`The server of role ${role}: ${remark}`),
    // The role retries, so that a retry may go to another replica. The client sets the deadline, so that it avoids a replica that misses it.
    maxRetries: 0,
    timeoutMs: limits.timeoutMs ?? ROLE_DEFAULTS.timeoutMs,
    maxConcurrentRequests: limits.maxConcurrent ?? ROLE_DEFAULTS.maxConcurrent,
  });
  opened.defer(() => client.close());
  const where = baseUrls.map(redactUrl);
  const { cache = 'memory' } = table;
  const binding = {
    ...limits,
    model: clientModel(() => client, { name: model, isPolicy: false }),
    timeoutMs: Infinity,
    ...(cache === 'off' ? {} : { cache: { identity: `${model} at ${where.toSorted().join(', ')}`, path: cache === 'memory' ? null : cache } }),
  };
  const more = where.length === 1 ? '' : ` and ${where.length - 1} more`;
  return { binding, who: `${model} at ${where[0]}${more}`, notice };
}

function limitsOf(table: RoleTable): Omit<RoleBinding, 'model' | 'cache'> {
  const { max_concurrent: maxConcurrent, max_retries: maxRetries, budget_calls: calls, budget_tokens: tokens } = table;
  const { timeout_s: timeoutS, total_timeout_s: totalTimeoutS } = table;
  return {
    ...(maxConcurrent === undefined ? {} : { maxConcurrent }),
    ...(timeoutS === undefined ? {} : { timeoutMs: timeoutS * 1000 }),
    ...(totalTimeoutS === undefined ? {} : { totalTimeoutMs: totalTimeoutS * 1000 }),
    ...(maxRetries === undefined ? {} : { maxRetries }),
    budget: { calls: calls ?? null, tokens: tokens ?? null },
  };
}

function ownModelText({ name, isRemote = false }: Model): string {
  return `${name} (${isRemote ? 'AI SDK' : 'builtin'})`;
}

/** Describes a role's model and limits before any server is contacted. */
export function resolvedRoleText(resolved: ResolvedRole): string {
  const { player } = resolved;
  const who =
    player.kind === 'builtin'
      ? ownModelText(player.model)
      : player.kind === 'policy'
        ? 'the policy itself'
        : `${player.model ?? 'the only model'} at ${player.baseUrls.map(redactUrl).join(', ')}`;
  return [who, ...limitsText(resolved)].join(', ');
}

/** The fields of every request, for the model of the role. */
function requestOf(asked: ReadSampling | null): RoleRequest {
  if (asked === null) return {};
  const { sampling, maxTokens } = asked;
  const { leaveOut = [] } = sampling;
  // Null also stands for a field that nobody set, which the environment then decides.
  const { temperature, topP, ...more } = sampling;
  const own = {
    ...more,
    ...(temperature !== null || leaveOut.includes('temperature') ? { temperature } : {}),
    ...(topP !== null || leaveOut.includes('top_p') ? { topP } : {}),
  };
  return { ...(Object.keys(own).length === 0 ? {} : { sampling: own }), ...(maxTokens === null ? {} : { maxTokens }) };
}

/** As JSON, without secrets; nothing if the requests are the environment's own. */
function askedText(asked: ReadSampling | null): string[] {
  return asked === null ? [] : [JSON.stringify(hideSecrets(samplingFields(asked.sampling, asked.maxTokens)))];
}

function limitsText({ isDefault, table, asked }: ResolvedRole): string[] {
  const { max_concurrent: maxConcurrent, budget_calls: calls, budget_tokens: tokens, cache } = table;
  return [
    ...(isDefault ? ["the environment's default"] : []),
    ...askedText(asked).map((fields) => `asked with ${fields}`),
    ...(maxConcurrent === undefined ? [] : [`${countText(maxConcurrent)} at once`]),
    ...(calls === undefined ? [] : [`at most ${plural(calls, 'call')}`]),
    ...(tokens === undefined ? [] : [`at most ${plural(tokens, 'token')}`]),
    ...(cache === undefined ? [] : [`cache ${cache}`]),
  ];
}
