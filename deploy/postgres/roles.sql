-- Creates the two roles and the schema, as an administrator; run again it
-- changes nothing. Passwords are set apart (\password).
--
--   psql -v owner=spendgate_owner -v service=spendgate -v schema=spendgate -f roles.sql
--
-- The owner migrates: `spendgate migrate` with its URL. Nodes connect as the
-- service, to which grants.sql then grants what they need.
\set ON_ERROR_STOP on

SELECT format('CREATE ROLE %I LOGIN', wanted.name)
    FROM (VALUES (:'owner'), (:'service')) AS wanted (name)
    WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = wanted.name) \gexec

ALTER ROLE :"service" NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS;

CREATE SCHEMA IF NOT EXISTS :"schema" AUTHORIZATION :"owner";

-- URLs need no search_path.
SELECT format('ALTER ROLE %I IN DATABASE %I SET search_path = %I', wanted.name, current_database(), :'schema')
    FROM (VALUES (:'owner'), (:'service')) AS wanted (name) \gexec

-- Where sessions are shared through a pooler, nodes cannot set this themselves.
SELECT format('ALTER ROLE %I IN DATABASE %I SET jit = off', :'service', current_database()) \gexec
