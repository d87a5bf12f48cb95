#!/usr/bin/env bash
# Make the work pool and deploy the flows on the Prefect server that PREFECT_API_URL names. Safe to repeat.
#
#   PREFECT_API_URL=http://127.0.0.1:4200/api infra/bootstrap.sh            # pool and deployments
#   PREFECT_API_URL=http://127.0.0.1:4200/api infra/bootstrap.sh --worker   # the same, then become a worker
set -euo pipefail

: "${PREFECT_API_URL:?set it to the address of a Prefect server, such as http://127.0.0.1:4200/api}"
checkout=$(cd "$(dirname "$0")/.." && pwd)
export PIVOTRL_CHECKOUT=${PIVOTRL_CHECKOUT:-$checkout}
export DO_NOT_TRACK=1 PREFECT_SERVER_ANALYTICS_ENABLED=false
cd "$checkout"

# The checkout's own environment, where it runs here: mounted in a container, it names an interpreter of the host.
prefect=prefect
if .venv/bin/prefect --version > /dev/null 2>&1; then prefect=.venv/bin/prefect; fi

if ! "$prefect" --no-prompt work-pool inspect pivotrl > /dev/null 2>&1; then
    # Two bootstraps may race for it: whoever comes second finds it there.
    "$prefect" --no-prompt work-pool create pivotrl --type process \
        || "$prefect" --no-prompt work-pool inspect pivotrl > /dev/null
fi
# No limit on the pool: a run whose machine died stays 'Running' on the server and would hold the only slot for good.
# The worker's own limit (below) dies with the worker, and the project's lock orders what shares one checkout.
"$prefect" --no-prompt deploy --all --prefect-file infra/prefect.yaml

if [ "${1:-}" = --worker ]; then
    exec "$prefect" worker start --pool pivotrl --type process --limit 1
fi
