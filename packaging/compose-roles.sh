#!/bin/sh
# The roles and the database of packaging/compose.yaml, made when its PostgreSQL first starts. Semel's role is no superuser, and
# reaches its own database alone: over the shared socket whoever is not the user postgres is the role semel.
set -e

psql --username postgres --dbname postgres --set ON_ERROR_STOP=1 <<'SQL'
CREATE ROLE semel LOGIN;
CREATE ROLE semel_audit NOLOGIN;
CREATE DATABASE semel OWNER semel;
SQL

# Read when the server starts for good.
cat >"$PGDATA/pg_hba.conf" <<'RULES'
local semel semel trust
local all postgres peer
RULES
