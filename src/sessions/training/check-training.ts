/** What a run finds out about its configuration before it starts a server, which may take minutes. `vf-train --dry-run` asks the same function, so that it passes what the run passes. */
import { ConfigError } from '../../core/errors.ts';
import type { Environment } from '../../core/environment.ts';
import type { RoleDeclarations } from '../../core/model.ts';
import type { TrainingConfig } from '../../schemas/training-config.ts';
import type { CreditFactory } from '../../trainer/credit.ts';
import { type ResolvedRole, resolveRoles } from '../roles/resolve-roles.ts';
import { assertPlays, assertTrainable } from './assert-trainable.ts';
import { checkInitialAdapter, type CheckedAdapter } from './check-initial-adapter.ts';
import { type OpenedJoints, openJoints } from './open-joints.ts';
import { longestRollout } from './open-policy-servers.ts';
import { isUnserved } from './open-supervised-training.ts';
import { type PlannedRun, planGpus } from './plan-gpus.ts';
import { type ServicePrice, servicePrice } from './service-price.ts';
import { checkTeacher } from './teacher/check-teacher.ts';

export interface TrainingCheck {
  readonly environment: Environment;
  /** May be the same. */
  readonly evaluation: Environment;
  /** The environment was loaded from a module. */
  readonly hasModule: boolean;
  /** The caller's own credit. @default the one that the configuration names */
  readonly credit?: CreditFactory;
  /** The caller chooses the rows of each step, of which there may be any number. @default false */
  readonly choosesRows?: boolean;
  /** The base is downloaded later, so that its tokenizer is not here yet. @default false */
  readonly isBaseLater?: boolean;
  readonly variables: Readonly<Record<string, string | undefined>>;
  /** US dollars for one GPU and hour. @default null: no price is shown */
  readonly gpuPrice?: number | null;
  readonly warn: (line: string) => void;
  /** Nothing runs after it, so that every supervised row is tokenised here. @default false */
  readonly isDry?: boolean;
  readonly signal: AbortSignal;
}

export interface CheckedTraining {
  readonly planned: PlannedRun;
  readonly joints: OpenedJoints;
  /** The roles of both environments, of which each may declare some that the other lacks; none if nothing is played. */
  readonly roles: readonly ResolvedRole[];
  /** Null for a new adapter. */
  readonly adapter: CheckedAdapter | null;
  /** Null for a run without a training service. */
  readonly servicePrice: ServicePrice | null;
}

/** Throws ConfigError. */
export async function checkTraining(config: TrainingConfig, check: TrainingCheck): Promise<CheckedTraining> {
  const { environment, evaluation, variables, signal } = check;
  await assertTrainable(environment, check.choosesRows === true ? { ...config, steps: 0 } : config);
  if (evaluation !== environment) await assertPlays(evaluation, config.model.path);
  const adapter = await checkInitialAdapter(config, variables);
  const priced = await servicePrice(config);
  if (config.evaluation.every > 0 && check.choosesRows !== true && !isUnserved(config) && evaluation.eval.length === 0)
    throw new ConfigError(
      `${evaluation.eval.name} has no rows to evaluate. Set environment.eval_args to arguments with which it has rows, or evaluation.every to 0.`,
    );
  const contextTokens = longestRollout(environment, config.model.path);
  const planned = await planGpus(config, { contextTokens, variables, gpuPrice: check.gpuPrice ?? null, signal });
  if (check.isBaseLater !== true) await checkTeacher(planned.config, check);
  const joints = await openJoints(planned.config, environment, check);
  const declarations: RoleDeclarations = { ...evaluation.roles, ...environment.roles };
  const roles = isUnserved(config) ? [] : await resolveRoles(declarations, config.roles, { variables });
  return { planned, joints, roles, adapter, servicePrice: priced };
}
