/** The dashboard's part of the one table of routes. */
import type { Route } from "../../server/route.ts";
import { type ApiSources, apiRoutes } from "./api-routes.ts";
import type { Assets } from "./assets.ts";
import { pageRoutes } from "./page-routes.ts";
import { writeRoutes } from "./write-routes.ts";

export interface DashboardSources extends ApiSources {
  assets: Assets;
}

export function dashboardRoutes({ assets, ...sources }: DashboardSources): Route[] {
  return [...pageRoutes(assets, sources.session), ...apiRoutes(sources), ...writeRoutes(sources)];
}
