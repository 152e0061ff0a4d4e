import { dirname, resolve } from 'node:path';
import { findEnvironment, type FindEnvironmentOptions, isEnvironmentPath } from '../../registry/find-environment.ts';

/**
 * The absolute path of an environment that is in a folder which the user names, so that the run and its continuation find it without that folder; any other id as it is.
 * Throws ConfigError if a folder is named and the environment is unknown.
 */
export function placedEnvironment(id: string, { environmentsDir }: Pick<FindEnvironmentOptions, 'environmentsDir'>): string {
  if (environmentsDir === undefined || isEnvironmentPath(id)) return id;
  const { folder } = findEnvironment(id, { environmentsDir });
  return dirname(folder) === resolve(environmentsDir) ? folder : id;
}
